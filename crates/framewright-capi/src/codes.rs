//! What a refusal is in the hosted library: a code, and a message with the numbers as the thread's last one.

use crate::seats;
use framewright::engine::EngineError;
use framewright::frame::{AllocError, FreeError};
use framewright::kv::{KvError, KvFreeError};
use framewright::reserve::PutRefused;
use framewright::stats::Broken;
use framewright::vrange::{RangeError, RangeFreeError};
use framewright::{RunError, SetupError};
use framewright_capi_core::arguments::WrongArgument;
use framewright_capi_core::codes::{
    Coded, FW_EFBIG, FW_EFOREIGN, FW_EFORKED, FW_EHOST, FW_EINVAL, FW_ENOMEM, FW_ENOSYS, text,
};
use framewright_linux::HostError;
use framewright_linux::ram::{NotInRam, RamError};
use framewright_linux::window::WindowError;
use std::ffi::c_int;
use std::fmt::Display;

/// A call was refused. Its message is the thread's last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CallRefusal(c_int);

impl CallRefusal {
    /// With a message; with the text of the code, if that says all.
    #[cold]
    pub(crate) fn new(code: c_int, message: &dyn Display) -> Self {
        seats::set_message(message);
        Self(code)
    }

    /// With the text of the code as its message.
    pub(crate) fn plain(code: c_int) -> Self {
        Self::new(code, &text(code).to_string_lossy())
    }

    /// The code.
    pub(crate) const fn code(self) -> c_int {
        self.0
    }
}

/// Refusals of errors that have a code of their own.
macro_rules! refused {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for CallRefusal {
            #[cold]
            fn from(error: $error) -> Self {
                Self::new(error.code(), &error)
            }
        }
    )+};
}

refused!(
    AllocError,
    Broken,
    FreeError,
    KvError,
    KvFreeError,
    RangeError,
    RangeFreeError,
    RunError,
    SetupError,
    WrongArgument,
);

impl From<PutRefused> for CallRefusal {
    #[cold]
    fn from(refused: PutRefused) -> Self {
        Self::new(
            refused.code(),
            &format_args!("the page was not stored: {refused:?}"),
        )
    }
}

impl From<NotInRam> for CallRefusal {
    #[cold]
    fn from(error: NotInRam) -> Self {
        Self::new(FW_EFOREIGN, &error)
    }
}

impl From<HostError> for CallRefusal {
    #[cold]
    fn from(error: HostError) -> Self {
        Self::new(code_of(&error), &error)
    }
}

fn code_of(error: &HostError) -> c_int {
    let of_errno = |errno: i32| match errno {
        12 => FW_ENOMEM,
        _ => FW_EHOST,
    };
    match error {
        HostError::Setup(EngineError::Metadata(_)) => FW_ENOMEM,
        HostError::Setup(_) | HostError::Heap { .. } | HostError::Reserve { .. } => FW_EINVAL,
        HostError::Ram(RamError::Empty) => FW_EINVAL,
        HostError::Ram(RamError::TooLong(_)) => FW_EFBIG,
        HostError::Ram(RamError::File(errno) | RamError::Map(errno))
        | HostError::Metadata(errno) => of_errno(*errno),
        HostError::Window(WindowError::Pages(_)) => FW_EINVAL,
        HostError::Window(WindowError::HugePool) => FW_ENOSYS,
        HostError::Window(WindowError::Host(errno)) => of_errno(*errno),
        HostError::NoMembarrier => FW_ENOSYS,
        HostError::Forked => FW_EFORKED,
    }
}
