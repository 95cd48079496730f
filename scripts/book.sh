#!/usr/bin/env bash
# Builds the documentation as a site and checks it: every page exists, every link has a target in
# the site, the search works, and nothing is loaded from another host.
#
#   ./scripts/book.sh
#
# The site is in the folder book/ below the target folder; its first page is docs/index.html. Files
# that the pages link to outside docs/ (examples, sources) are copied beside it, so that the same
# links work here and in the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh

mdbook_version=0.5.4
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools=$target/tools
site=$target/book

main() {
    require_rust
    require_mdbook
    rm -rf "$site"
    build
    add_linked_files
    check_links
    check_search
    check_nothing_is_remote
    say "the book is at $site/docs/index.html"
}

# Built once, without optimisation, as cargo-deny in deny.sh: the build is faster than the runs are
# slow. Watching and serving are left out, which are most of its dependencies.
require_mdbook() {
    PATH=$PATH:$tools/bin
    if command -v mdbook >/dev/null; then
        return
    fi
    say "building mdbook $mdbook_version"
    env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 \
        cargo install --quiet --locked --debug --no-default-features --features search \
        --root "$tools" "mdbook@$mdbook_version" ||
        die "mdbook could not be built: cargo install --locked mdbook, then run this again"
}

# mdbook only warns of some errors, such as a link in the summary to a missing file, and continues.
build() {
    local said
    said=$(mdbook build docs --dest-dir "$site/docs" 2>&1) || {
        printf '%s\n' "$said" >&2
        die "the book could not be built"
    }
    if grep -E '(WARN|ERROR)' <<<"$said" >&2; then
        die "the book was built with warnings"
    fi
}

# Prints the target of every relative link, as a path below the site.
links() {
    local page
    while read -r page; do
        grep -oE '(href|src)="[^"#?]+' "$page" | sed 's/^[a-z]*="//' | grep -vE '^([a-z]+:|//)' | sort -u |
            (cd "$(dirname "$page")" && xargs --delimiter='\n' realpath -m --relative-to="$site")
    done < <(find "$site/docs" -name '*.html') | sort -u
}

# Sources are shown as they are. mdbook treats every link to a Markdown file as a link to a page of
# the book.
add_linked_files() {
    local link
    while read -r link; do
        case $link in
        docs/*) ;;
        *.html) [ ! -f "${link%.html}.md" ] || as_page "${link%.html}.md" "$site/$link" ;;
        *) [ ! -f "$link" ] || install -D -m 644 "$link" "$site/$link" ;;
        esac
    done < <(links)
}

as_page() {
    mkdir -p "$(dirname "$2")"
    {
        printf '<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>%s</title><pre>\n' "$1"
        sed 's/&/\&amp;/g; s/</\&lt;/g' "$1"
        printf '</pre></html>\n'
    } >"$2"
}

check_links() {
    local link broken=0
    while read -r link; do
        if [ ! -e "$site/$link" ]; then
            say "no such page: $link, to which these link: $(grep -rlF "$(basename "${link%.html}")" docs | paste -sd ' ')"
            broken=1
        fi
    done < <(links)
    [ $broken -eq 0 ] || die "the book has broken links"
}

check_search() {
    local index
    index=$(find "$site/docs" -name 'searchindex*.js' -size +100k | head -1)
    [ -n "$index" ] || die "the book has no index to search in"
    grep -q 'stuck_leases' "$index" || die "the index of the book does not have what is in its pages"
}

# A page that needs another host does not work without it, and reveals its reader to that host.
check_nothing_is_remote() {
    local found
    found=$(grep -rnoE --include='*.html' '<(script|link|img|iframe|source)[^>]*(src|href)="(https?:)?//[^"]*"' "$site" || true)
    found+=$(grep -rnoE --include='*.css' 'url\(["'\'']?(https?:)?//[^)]*|@import[^;]*//[^;]*' "$site" || true)
    # The book's own script sends a listing of this class to a playground, and asks it for its
    # crates.
    found+=$(grep -rnoE --include='*.html' 'class="[^"]*playground[^"]*"' "$site" || true)
    # The scripts of a page fetch nothing, and no style, font or form is on another host.
    found+=$(grep -rnoE --include='*.html' '(fetch|import)\(["'\''](https?:)?//[^"'\'']*|<form[^>]*action="(https?:)?//[^"]*' "$site" || true)
    [ -z "$found" ] || die "pages of the book load from elsewhere: $found"
}

main
