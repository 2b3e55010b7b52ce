//! What tests of whole engines share.

/// A platform that maps nothing and touches no object, for tests that look at neither.
macro_rules! maps_nothing {
    ($platform:ty) => {
        impl framewright::platform::RangePlatform for $platform {
            fn map(
                &self,
                _at: framewright::Page,
                _frames: framewright::Run,
                _access: framewright::PageAccess,
                _tables: &mut impl framewright::platform::TableSource,
            ) -> Result<(), framewright::platform::MapError> {
                Ok(())
            }

            fn unmap(
                &self,
                _range: framewright::PageRange,
            ) -> Result<(), framewright::platform::MapError> {
                Ok(())
            }

            fn flush_all(&self) {}

            fn zero(&self, _frames: framewright::Run) {}
        }

        impl framewright::platform::ObjectPlatform for $platform {
            fn direct_base(&self) -> framewright::Addr {
                framewright::Addr(1 << 40)
            }

            fn zero_bytes(&self, _at: framewright::Addr, _bytes: u64) {}

            fn copy_bytes(&self, _from: framewright::Addr, _to: framewright::Addr, _bytes: u64) {}
        }
    };
}

pub(crate) use maps_nothing;
