#!/usr/bin/env bash
# Builds the service twice, from two copies of the sources in folders of different names
# and with caches of their own, and compares the bytes. The second copy has no .git and is
# built as another user would: with another HOME and another time zone. Then it compares
# with the binary that is given, if one is.
#
#   test/verify-build.sh [BINARY]
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
modules=$(go env GOMODCACHE)
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
revision=${REVISION:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}

copy() {
  mkdir -p "$1"
  cp -r go.mod go.sum Makefile hooks server "$1"
}
build() { # FOLDER NAME=VALUE...
  local folder=$1
  shift
  env -u GOFLAGS GOMODCACHE="$modules" GOPATH="$work/path" "$@" \
    make -s -C "$folder" build VERSION="$version" REVISION="$revision" >/dev/null
}
copy "$work/one"
copy "$work/another/folder/with a space"
# The first one may use what was compiled before, the second compiles everything.
build "$work/one"
build "$work/another/folder/with a space" GOCACHE="$work/cache" HOME="$work/home" TZ=Asia/Shanghai LC_ALL=C

one=$(sha256sum <"$work/one/bin/greyrelease") another=$(sha256sum <"$work/another/folder/with a space/bin/greyrelease")
if [ "$one" != "$another" ]; then
  echo "two builds of the same sources differ: ${one%% *} and ${another%% *}" >&2
  exit 1
fi
if ! go version -m "$work/one/bin/greyrelease" | grep -q 'CGO_ENABLED=0'; then
  echo "want a static binary, it is built with cgo" >&2
  exit 1
fi
said=$("$work/one/bin/greyrelease" --version)
if [[ "$said" != "greyrelease $version, revision $revision, "* ]]; then
  echo "want version $version and revision $revision in the binary, it says: $said" >&2
  exit 1
fi
if [ $# -gt 0 ] && [ "$(sha256sum <"$1")" != "$one" ]; then
  echo "$1 is not what these sources are built to: $(sha256sum <"$1" | cut -d' ' -f1), want ${one%% *}" >&2
  exit 1
fi
echo "${one%% *}  $said"
