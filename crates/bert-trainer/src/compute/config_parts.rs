//! Builds configurations from parts: setters for the fields of a part, and the headings of the flags in the help.

/// Defines setters of a configuration for the fields of one of its parts.
macro_rules! part_setters {
    ($config:ty, $part:ident: $($setter:ident($field:ident: $type:ty)),+) => {
        impl $config {
            $(
                #[doc = concat!("Sets `", stringify!($part), ".", stringify!($field), "`.")]
                #[must_use]
                pub fn $setter(mut self, $field: $type) -> Self {
                    self.$part.$field = $field.into();
                    self
                }
            )+
        }
    };
}
pub(crate) use part_setters;

/// A heading of the help with its flags, by their ids.
#[cfg(feature = "cli")]
pub(crate) struct HelpGroup {
    pub(crate) heading: &'static str,
    /// Flags of `-h` and `--help`.
    pub(crate) common: &'static [&'static str],
    /// Flags of `--help` only.
    pub(crate) rare: &'static [&'static str],
}

/// Puts a flag under its heading. Flags without a heading come first in the help.
#[cfg(feature = "cli")]
pub(crate) fn with_heading(flag: clap::Arg, groups: &[HelpGroup]) -> clap::Arg {
    let id = flag.get_id().to_string();
    let id = id.as_str();
    match groups.iter().find(|group| group.common.contains(&id) || group.rare.contains(&id)) {
        Some(group) => flag.help_heading(group.heading).hide_short_help(group.rare.contains(&id)),
        None => flag,
    }
}
