# Sourced by run.sh and test.sh. bevel_setup <use>... installs what those uses need and the machine lacks, through apt
# on Debian and Ubuntu. The uses are build, bbox and test. With everything there it runs nothing at all.
# The CUDA toolkit is never installed: it is used where it is found.

# One line a package: use, package, how to see that it is there (a command, or dpkg), what it is for.
bevel_packages='
build g++              command:g++    C++20 compiler
build cmake            command:cmake  build system, 3.25 or later
build ninja-build      command:ninja  runs the build
build libeigen3-dev    dpkg           matrix products and thread pool on the CPU
bbox  libcli11-dev     dpkg           command line of the trainer
bbox  libpugixml-dev   dpkg           Pascal VOC annotations
bbox  libjpeg-dev      dpkg           JPEG pictures
bbox  libpng-dev       dpkg           PNG pictures
test  nlohmann-json3-dev dpkg         JSON of the benchmarks and of golden values
test  libgtest-dev     dpkg           test framework
test  libgmock-dev     dpkg           matchers of the test framework
test  libbenchmark-dev dpkg           benchmarks
'

bevel_die() {
  echo "error: $*" >&2
  exit 1
}

bevel_package_is_there() {  # package, check
  case $2 in
    command:*) command -v "${2#command:}" > /dev/null ;;
    dpkg) dpkg-query -W -f '${db:Status-Status}\n' "$1" 2> /dev/null | grep -qx installed ;;
  esac
}

# Prints the lines of bevel_packages that belong to the given uses.
bevel_packages_for() {
  local use
  for use in "$@"; do
    grep "^$use " <<< "$bevel_packages"
  done
}

bevel_apt_install() {  # packages...
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || bevel_die "not root and no sudo. As root, run: apt-get install $*"
    as_root=(sudo)
  fi
  local options=(-o DPkg::Lock::Timeout=120 -y --no-install-recommends)
  "${as_root[@]}" apt-get update || echo "warning: apt-get update failed; trying with the lists that are there" >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install "${options[@]}" "$@" ||
    bevel_die "apt-get could not install: $*"
}

bevel_setup() {  # uses...
  local use package check purpose missing=()
  if command -v dpkg-query > /dev/null && command -v apt-get > /dev/null; then
    while read -r use package check purpose; do
      bevel_package_is_there "$package" "$check" && continue
      [ ${#missing[@]} -gt 0 ] || echo "Installing through apt-get what is missing:"
      printf '  %-20s %s\n' "$package" "$purpose"
      missing+=("$package")
    done < <(bevel_packages_for "$@")
    [ ${#missing[@]} -eq 0 ] || bevel_apt_install "${missing[@]}"
  elif ! command -v g++ > /dev/null || ! command -v cmake > /dev/null || ! command -v ninja > /dev/null; then
    echo "This is not Debian or Ubuntu; please install what these Debian packages hold:" >&2
    while read -r use package check purpose; do
      printf '  %-20s %s\n' "$package" "$purpose" >&2
    done < <(bevel_packages_for "$@")
    bevel_die "g++, cmake or ninja not found"
  fi
  bevel_check_cmake
}

bevel_check_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
  if [ "$(printf '%s\n' 3.25 "$version" | sort -V | head -n 1)" != 3.25 ]; then
    bevel_die "cmake is $version, and 3.25 or later is needed (Debian 12, Ubuntu 23.04 and later have it;" \
      "elsewhere: apt.kitware.com, or pip install cmake)"
  fi
}
