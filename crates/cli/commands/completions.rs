//! `bert completions` prints a completion script for a shell.

use clap::{Args as ClapArgs, Command};
use clap_complete::{Shell, generate};

use crate::output::stdout::print;

/// Print the completion script of a shell, for all programs.
///
/// Load it in the start-up file of the shell: `source <(bert completions bash)` in ~/.bashrc,
/// `source <(bert completions zsh)` in ~/.zshrc after compinit, `bert completions fish | source` in
/// ~/.config/fish/config.fish, `bert completions powershell | Out-String | Invoke-Expression` in $PROFILE.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// Shell that the script is for.
    shell: Shell,
}

/// Runs the command for these programs.
pub fn run(args: &Args, programs: Vec<Command>) -> anyhow::Result<()> {
    let count = programs.len();
    let mut script = Vec::new();
    for mut program in programs {
        let name = program.get_name().to_owned();
        generate(args.shell, &mut program, name, &mut script);
    }
    let script = String::from_utf8(script)?;
    // In PowerShell, `using` is allowed at the beginning of a script only.
    let (using, rest): (Vec<&str>, Vec<&str>) =
        script.lines().partition(|line| line.starts_with("using namespace"));
    let using = using.iter().take(using.len() / count);
    print(&using.chain(&rest).copied().collect::<Vec<_>>().join("\n"))
}
