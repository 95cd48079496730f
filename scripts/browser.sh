# shellcheck shell=bash
# The browser of the dashboard's tests. Sourced after machine.sh, never run.
#
#   offer_chromium   exports OUTLAST_TEST_CHROMIUM, the program's path, if it can be installed;
#                    without it, the tests of the dashboard fail and say why

offer_chromium() {
    local chromium
    [ -z "${OUTLAST_TEST_CHROMIUM:-}" ] || return 0
    if ! chromium=$(installed_chromium); then
        # The fonts are for the screenshots: without any, text is boxes.
        if ! apt_install chromium fonts-inter fonts-jetbrains-mono || ! chromium=$(installed_chromium); then
            say "no Chromium, so the tests of the dashboard will fail: install it (on Debian as root:" \
                "apt-get install chromium), name its path in OUTLAST_TEST_CHROMIUM, or skip them with" \
                "OUTLAST_TEST_CHROMIUM=none"
            return 0
        fi
    fi
    export OUTLAST_TEST_CHROMIUM=$chromium
}

installed_chromium() {
    command -v chromium || command -v chromium-browser || command -v google-chrome
}
