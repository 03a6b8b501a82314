# Functions of fetch_glue and fetch_corpora: download, check, unpack. Sourced, not run.
#
# A file or folder gets its final name only when it is complete: downloads are written to NAME.part, archives are unpacked
# into a hidden folder, and both are renamed at the end. A second run continues where the first one stopped.

PROGRAM=$(basename "$0")

say() { printf '%s\n' "$*" >&2; }
die() {
    say "$PROGRAM: $*"
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# downloader: prints the download program. FETCH_WITH=curl or FETCH_WITH=wget chooses it.
downloader() {
    for program in ${FETCH_WITH:-curl wget}; do
        if have "$program"; then
            echo "$program"
            return
        fi
    done
    die "needs ${FETCH_WITH:-curl or wget}, which is not installed"
}

# transfer URL PART: downloads, or continues PART if it exists. Sets $failure to one of
#   (empty)  done
#   network  the connection failed
#   server   the server does not provide the file
#   restart  the server cannot continue a partial download
transfer() {
    failure=
    status=0
    case $(downloader) in
    curl)
        http=$(curl --fail --location --silent --show-error --connect-timeout 30 --retry 3 \
            --write-out '%{http_code}' --continue-at - --output "$2" "$1") || status=$?
        case $status:$http in
        0:*) ;;
        22:416 | 33:* | 36:*) failure=restart ;;
        22:*) failure=server ;;
        *) failure=network ;;
        esac
        ;;
    wget)
        # wget restarts by itself where it cannot continue.
        wget --quiet --tries=3 --timeout=30 --continue --output-document="$2" "$1" || status=$?
        case $status in
        0) ;;
        8) failure=server ;;
        *) failure=network ;;
        esac
        # wget leaves an empty file when it received nothing.
        [ -s "$2" ] || rm -f "$2"
        ;;
    *) exit 1 ;; # downloader printed the reason
    esac
}

# download URL FILE: fetches a file unless it exists, and checks its checksum. A partial download is kept for the next run.
download() {
    if [ ! -f "$2" ]; then
        say "fetching $1"
        transfer "$1" "$2.part"
        if [ "$failure" = restart ]; then
            say "cannot continue the earlier part of $1; starting again"
            rm -f "$2.part"
            transfer "$1" "$2.part"
        fi
        case $failure in
        '') ;;
        network) die "$1: connection failed; run the same command again to continue" ;;
        *) die "$1: the server does not provide this file" ;;
        esac
        [ -f "$2.part" ] || die "$1: received no data"
        mv "$2.part" "$2"
    fi
    check_sum "$2"
}

# check_sum FILE: compares the file with the list in $CHECKSUMS, if it is set.
check_sum() {
    [ -n "${CHECKSUMS:-}" ] || return 0
    name=$(basename "$1")
    # Accepts both formats of sha256sum, "SUM  NAME" and "SUM *NAME", with or without folders in the name.
    expected=$(awk -v name="$name" '{ file = $2; sub(/^\*/, "", file); sub(/.*\//, "", file) }
        file == name { print $1; exit }' "$CHECKSUMS")
    [ -n "$expected" ] || die "$CHECKSUMS: no checksum of $name"
    if have sha256sum; then
        found=$(sha256sum <"$1")
    elif have shasum; then
        found=$(shasum -a 256 <"$1")
    else
        die "needs sha256sum or shasum to check $name, and neither is installed"
    fi
    found=${found%% *}
    if [ "$found" != "$expected" ]; then
        rm -f "$1"
        die "$name: SHA-256 is $found, expected $expected; removed it, run the same command again"
    fi
}

# unpacker: prints the program that unpacks zip archives.
unpacker() {
    for program in unzip bsdtar busybox; do
        if have "$program"; then
            echo "$program"
            return
        fi
    done
    die "needs unzip, bsdtar or busybox to unpack zip archives, and none is installed"
}

# unpack ZIP FOLDER: unpacks an archive, or removes it if it is damaged.
unpack() {
    mkdir -p "$2"
    status=0
    case $(unpacker) in
    unzip) unzip -q -o "$1" -d "$2" >&2 || status=$? ;;
    bsdtar) bsdtar -x -f "$1" -C "$2" || status=$? ;;
    busybox) busybox unzip -q -o "$1" -d "$2" >&2 || status=$? ;;
    *) exit 1 ;; # unpacker printed the reason
    esac
    if [ $status != 0 ]; then
        rm -f "$1"
        die "$(basename "$1") is not a complete zip archive; removed it, run the same command again"
    fi
}

# work_folder DIR: creates the folders for downloads and for unfinished work in DIR. If the run fails, downloads are kept for
# the next run and unfinished work is removed.
work_folder() {
    # Checked before anything is fetched.
    [ -z "${CHECKSUMS:-}" ] || [ -r "$CHECKSUMS" ] || die "$CHECKSUMS: cannot read this file of checksums"
    downloads=$1/.downloads
    work=$1/.work.$$
    mkdir -p "$downloads" "$work" || die "$1: cannot create this folder"
    trap 'rm -rf "$work"; rmdir "$downloads" 2>/dev/null || true' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# finish FOLDER FINAL FILE...: gives the finished folder its final name and removes its downloads.
finish() {
    folder=$1
    final=$2
    shift 2
    mv "$folder" "$final" || die "$final: cannot rename the finished folder to this name"
    rm -f "$@"
    say "made $final"
}
