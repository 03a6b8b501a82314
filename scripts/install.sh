#!/bin/sh
# Installs the programs from a release archive. Checks the archive's SHA-256 digest before it unpacks anything.
#
#   sh install.sh                       the version of this script, into ~/.local/bin
#   sh install.sh --to FOLDER           into another folder
#   sh install.sh --from URL            from another server: the folder that holds the archives
#   sh install.sh --version 0.1.0
#
# The release workflow writes the address of the release into the copy that it publishes.
set -eu
from=@RELEASE_URL@
version=@VERSION@
to=$HOME/.local/bin

fail() {
    echo "error: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || fail "$1 needs a value"
    case $1 in
        --from) from=$2 ;;
        --to) to=$2 ;;
        --version) version=$2 ;;
        *) fail "unknown option $1; the options are --from, --to and --version" ;;
    esac
    shift 2
done
case $from in @*) fail "this copy of the script has no address of a release; give one by --from URL" ;; esac
case $version in @*) fail "this copy of the script has no version; give one by --version" ;; esac

case "$(uname -s) $(uname -m)" in
    "Linux x86_64") target=x86_64-unknown-linux-gnu ;;
    "Linux aarch64") target=aarch64-unknown-linux-gnu ;;
    "Darwin arm64") target=aarch64-apple-darwin ;;
    *) fail "there is no archive for $(uname -s) on $(uname -m); build from source (README.md)" ;;
esac
name=bert-$version-$target
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

download() {
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location "$1" --output "$2"
    elif command -v wget >/dev/null 2>&1; then
        wget --quiet "$1" --output-document "$2"
    else
        fail "neither curl nor wget is installed"
    fi || fail "cannot download $1"
}

download "$from/$name.tar.gz" "$tmp/$name.tar.gz"
download "$from/$name.tar.gz.sha256" "$tmp/$name.tar.gz.sha256"
expected=$(cut -d ' ' -f 1 <"$tmp/$name.tar.gz.sha256")
if command -v sha256sum >/dev/null 2>&1; then
    actual=$(sha256sum <"$tmp/$name.tar.gz" | cut -d ' ' -f 1)
else
    actual=$(shasum -a 256 <"$tmp/$name.tar.gz" | cut -d ' ' -f 1)
fi
[ "$actual" = "$expected" ] ||
    fail "$from/$name.tar.gz is damaged: its SHA-256 digest is $actual, not $expected; nothing was installed"
tar -C "$tmp" -xzf "$tmp/$name.tar.gz"
mkdir -p "$to"
for program in bert make-pretrain-data pretrain finetune; do
    # A rename, so that a program that runs now is not overwritten.
    cp "$tmp/$name/$program" "$to/.$program.new"
    mv "$to/.$program.new" "$to/$program"
done
echo "installed bert $version in $to"
case ":$PATH:" in
    *":$to:"*) ;;
    *) echo "note: $to is not in PATH" ;;
esac
