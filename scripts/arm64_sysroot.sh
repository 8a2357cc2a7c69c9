#!/usr/bin/env bash
# Unpacks the arm64 libraries that a cross build needs, and what they need, into a folder:
#
#     scripts/arm64_sysroot.sh FOLDER
#
# They are packages of Debian, from the system's own package sources. apt-get has its lists and its list of
# installed packages in the folder, so that nothing of the system changes, and no rights are needed. The
# cross compiler and QEMU are installed as scripts/system_packages.sh installs the build's packages. FOLDER
# is new, or one that this script has made: anything else is refused, and left as it is.
set -euo pipefail

sysroot=${1:?usage: arm64_sysroot.sh FOLDER}
packages=(
  libc6-dev libstdc++6 libgtest-dev libhwy-dev nlohmann-json3-dev
  libgif-dev libjpeg62-turbo-dev libpng-dev libwebp-dev
)

mark=$sysroot/.endcap-arm64-sysroot  # what the folder is made of; empty until it is complete
if [ -e "$sysroot" ] || [ -L "$sysroot" ]; then
  if [ -L "$sysroot" ] || [ ! -O "$sysroot" ] || [ -L "$mark" ] || [ ! -f "$mark" ]; then
    echo "endcap: $sysroot exists and was not made by this script: give another folder" >&2
    exit 1
  fi
  if [ "$(cat "$mark")" = "${packages[*]}" ]; then exit; fi
fi
"$(dirname "$0")"/system_packages.sh arm64
# shellcheck source=/dev/null
. /etc/os-release
if [ "$ID" != debian ]; then
  echo "endcap: the arm64 packages are taken from Debian's package sources; this system is $ID" >&2
  exit 1
fi

echo "endcap: fetching arm64 packages of Debian $VERSION_ID into $sysroot"
rm -rf "$sysroot"
mkdir -p "$sysroot"
: > "$mark"
sysroot=$(realpath "$sysroot")
mark=$sysroot/$(basename "$mark")
state=$sysroot/.apt
mkdir -p "$sysroot/usr/lib" "$state"/{state/lists/partial,cache/archives/partial}
: > "$state/status"

apt() {
  apt-get -qq -o Acquire::Retries=3 -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
    -o APT::Sandbox::User=root -o Debug::NoLocking=1 -o Dir::State="$state/state" \
    -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
    -o Dir::Cache::archives="$state/cache/archives" "$@"
}
apt update
apt install -y --download-only --no-install-recommends "${packages[@]}" >/dev/null

# /lib is part of /usr on the system, too.
ln -s usr/lib "$sysroot/lib"
for package in "$state"/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x -C "$sysroot" --keep-directory-symlink --no-same-owner \
    --exclude='./usr/share/doc' --exclude='./usr/share/man'
done
# Links to absolute paths would lead out of the folder.
find "$sysroot" -type l -lname '/*' | while read -r link; do
  ln -sfnr "$sysroot$(readlink "$link")" "$link"
done
rm -rf "$state"
echo "${packages[*]}" > "$mark"
