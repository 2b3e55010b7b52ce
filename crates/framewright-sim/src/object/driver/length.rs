//! Changes of length: where old and new object may be the same memory, and an error leaves the old one whole.

use super::{AskedObject, Difference, Made, ModelObject, ObjectPair, differ};
use framewright::kv::{KvError, KvRequest};
use framewright::{Addr, Context};

impl ObjectPair<'_, '_> {
    /// `kvrealloc` of a live object.
    pub(super) fn change_length(
        &mut self,
        cpu: u16,
        object: ModelObject,
        request: KvRequest,
    ) -> Result<(), Difference> {
        self.read(cpu, &object, object.bytes)?;
        let asked = AskedObject {
            cpu,
            made: Made::Kvmalloc,
            request,
        };
        let failed = self.ram.machine().failed();
        let paging = self.ram.paging();
        let got = paging.within(request.context, || {
            self.seat(cpu).kvrealloc(object.addr, &request)
        });
        self.check_effort(&request)?;
        match got {
            Ok(addr) => self.changed(&asked, &object, addr),
            Err(error) => {
                self.unchanged(&object, &request, error)?;
                self.read(cpu, &object, object.bytes)?;
                if error == KvError::MustNotFree(object.addr) {
                    return self.kept_mapped(&object, request.context);
                }
                self.refused(&asked, error, failed)
            }
        }
    }

    fn changed(
        &mut self,
        asked: &AskedObject,
        object: &ModelObject,
        addr: Addr,
    ) -> Result<(), Difference> {
        let kept = object.bytes.min(asked.request.bytes);
        self.read_at(asked.cpu, object, addr, kept)?;
        if addr == object.addr {
            // It is the same memory, or a part of it.
            self.model.remove(addr);
            if self.model.is_mapped(addr) {
                self.ranges.free(addr.page());
            }
        } else {
            // Both existed at once, the old one perhaps without its tail.
            self.model.cut(object.addr, asked.request.bytes);
            self.count_obtained(asked.made, addr);
        }
        let is_zeroed = object.is_zeroed && asked.request.zero;
        let made = if addr == object.addr {
            Made::Kept
        } else {
            asked.made
        };
        let request = KvRequest {
            zero: is_zeroed,
            ..asked.request
        };
        let asked = AskedObject {
            made,
            request,
            ..*asked
        };
        let new = self.obtained(&asked, addr)?;
        if addr != object.addr {
            self.freed(object.addr);
        } else if new.covers > object.covers {
            return differ!("{object:?} grew to {new:?} where it is");
        }
        if is_zeroed {
            self.is_zero(asked.cpu, &new, kept)?;
        }
        self.write(asked.cpu, &new)
    }

    /// Checks that a failed call changed nothing, and that it had a reason to fail.
    fn unchanged(
        &self,
        object: &ModelObject,
        request: &KvRequest,
        error: KvError,
    ) -> Result<(), Difference> {
        let covers = self.size_of(0, object.addr);
        if covers != Ok(object.covers) {
            return differ!("{object:?} has {covers:?} bytes after {request:?}: {error}");
        }
        // Its own request was a possible one; of the new one only the part matters that has nothing
        // to do with memory.
        let is_sound = !matches!(
            self.model.must_alloc(request, Made::Kvmalloc),
            Err(KvError::Empty | KvError::Align { .. } | KvError::MustNotWait)
        );
        let fits = request.bytes <= object.covers
            && request.align_bytes.is_power_of_two()
            && object.addr.0.is_multiple_of(request.align_bytes);
        if fits && is_sound {
            return differ!("{object:?} did not shrink or grow to {request:?}: {error}");
        }
        Ok(())
    }

    fn kept_mapped(&self, object: &ModelObject, context: Context) -> Result<(), Difference> {
        if self.model.is_mapped(object.addr) && !context.may_block {
            return Ok(());
        }
        differ!("{object:?} may move within {context:?}, and did not")
    }

    /// `kvrealloc` of any place.
    pub(super) fn change_any(&mut self, cpu: u16, at: u64, bytes: u64) -> Result<(), Difference> {
        let (addr, request) = (self.model.address(at), KvRequest::new(bytes));
        if let Some(object) = self.model.get(addr) {
            return self.change_length(cpu, object, request);
        }
        let must = self.model.must_alloc(&request, Made::Kvmalloc);
        match (self.seat(cpu).kvrealloc(addr, &request), must) {
            (Err(error), Err(must)) if error == must => Ok(()),
            (Err(KvError::Free(error)), Ok(()))
                if self.model.may_refuse(addr, false, error)
                    || self.ram.paging().failed_maps() > 0 =>
            {
                Ok(())
            }
            (got, must) => differ!("kvrealloc of {addr}, where nothing is: {got:?}, {must:?}"),
        }
    }
}
