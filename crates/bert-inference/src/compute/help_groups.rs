//! Groups the flags of a configuration under headings in the help.

/// A heading of the help with its flags, by their ids.
pub struct HelpGroup {
    /// The heading.
    pub heading: &'static str,
    /// Flags of `-h` and `--help`.
    pub common: &'static [&'static str],
    /// Flags of `--help` only.
    pub rare: &'static [&'static str],
}

/// Puts a flag under its heading. Flags without a heading come first in the help.
pub fn with_heading(flag: clap::Arg, groups: &[HelpGroup]) -> clap::Arg {
    let id = flag.get_id().to_string();
    let id = id.as_str();
    match groups.iter().find(|group| group.common.contains(&id) || group.rare.contains(&id)) {
        Some(group) => flag.help_heading(group.heading).hide_short_help(group.rare.contains(&id)),
        None => flag,
    }
}
