# shellcheck shell=bash disable=SC2154
# Sourced by ./run and ./test, which set `root`: gets what the build needs, configures, builds.
# Everything said here goes to standard error; nothing that is already there is done again.

packages=(
  g++ cmake ninja-build git unzip python3 python3-pip clang-format
  nlohmann-json3-dev libcli11-dev libfmt-dev libboost-dev libprotozero-dev
  libsqlitecpp-dev libsqlite3-dev libopenblas-dev libgoogle-perftools-dev libssl-dev
  openmpi-bin libopenmpi-dev
  libpugixml-dev libtoml11-dev libyaml-cpp-dev
  catch2 librapidcheck-dev
)
# What the desktop program needs besides, which ./test always builds and ./run when it is asked for.
gui_packages=(qt6-base-dev qt6-svg-dev fonts-dejavu-core)
# A display that nobody sees, who manages its windows, and hands.
window_test_packages=(xvfb openbox xdotool)
readonly environment_missing=30  # the program's own exit code for it

say() { printf 'meshwright: %s\n' "$*" >&2; }

give_up() {
  say "$*"
  exit $environment_missing
}

# Says what is being done once it has taken a second, then every five seconds the last line of its
# log, until its input ends.
show_progress() {
  local log=$1 words=$2 pause=1
  while read -r -t $pause _ || (($? > 128)); do
    [[ $words ]] || words="  $(grep -v '^ *$' "$log" | tail -n 1 | cut -c 1-90)"
    say "$words"
    words=''
    pause=5
  done
}

# run_quietly LOG WORDS COMMAND...: the command's output goes to the log, signs of life to standard
# error.
run_quietly() {
  local log=$1 words=$2 alive progress status=0
  shift 2
  mkdir -p "$(dirname "$log")"
  : >"$log"
  exec {alive}> >(show_progress "$log" "$words")
  progress=$!
  "$@" >"$log" 2>&1 {alive}>&- </dev/null || status=$?
  exec {alive}>&-
  wait "$progress" || true
  return $status
}

# The line of a log that says why: the last one that an error message starts, or the last at all.
reason_in() {
  local line
  line=$(grep -iE '^(E|error|fatal|sudo)[: ]' "$1" | tail -n 1) || true
  [[ $line ]] || line=$(grep -v '^ *$' "$1" | tail -n 1) || true
  printf '%s' "${line:-no message}"
}

missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null)
  comm -23 <(printf '%s\n' "${packages[@]}" | sort) \
    <(sed -n 's/^installed //p' <<<"$installed" | sort)
}

install_packages() {
  local missing log=$root/build/log/packages.log as_root=()
  if ! command -v dpkg-query >/dev/null; then
    say "this is no Debian system; going on with what is installed (needed: ${packages[*]})"
    return 0
  fi
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      give_up "packages are missing, and installing them needs root or sudo: ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing packages: ${missing[*]}"
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
  run_quietly "$log" "reading package lists..." "${as_root[@]}" update ||
    give_up "the package lists cannot be read ($(reason_in "$log")); log: $log"
  run_quietly "$log" "installing..." \
    "${as_root[@]}" install -y --no-install-recommends "${missing[@]}" ||
    give_up "packages cannot be installed ($(reason_in "$log")); log: $log"
}

# The system's own Python first: another one on the path may lack pip.
python_with_pip() {
  local python
  for python in /usr/bin/python3 python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      printf '%s' "$python"
      return 0
    fi
  done
  give_up "no python3 with pip is here, which fetches OR-Tools"
}

# OR-Tools is in no Debian release; its Python wheel carries the whole library. It is unpacked
# beside its place and renamed, so that a folder of that name is always complete. Only ./test needs
# it: the program loads it where it is, for models with very wide layers.
fetch_ortools() {
  local version place part python log=$root/build/log/ortools.log
  version=$(<"$root/cmake/ortools_version.txt")
  place=$root/build/deps/ortools-$version
  [[ ! -d $place ]] || return 0
  say "fetching OR-Tools $version (30 MB)"
  python=$(python_with_pip) || exit
  part=$place.part
  rm -rf "$part" # of a call that was killed; the lock keeps others out
  mkdir -p "$part" || give_up "$part cannot be made"
  run_quietly "$log" "downloading..." \
    "$python" -m pip download --no-deps --only-binary=:all: --progress-bar off \
    --dest "$part/wheel" "ortools==$version" ||
    give_up "OR-Tools cannot be downloaded; is the network there? ($(reason_in "$log")); log: $log"
  run_quietly "$log" "unpacking..." unzip -q "$part"/wheel/*.whl \
    'ortools/.libs/*' 'ortools.libs/*' '*.dist-info/*' -d "$part/unpacked" ||
    give_up "OR-Tools cannot be unpacked ($(reason_in "$log")); log: $log"
  mv -T "$part/unpacked" "$place" || give_up "$place cannot be made"
  rm -rf "$part"
}

# build PRESET [TARGET...]: fails with the log shown.
build() {
  local preset=$1 log=$root/build/log/$1.log launcher=()
  shift
  # Configured from other presets, it would keep what those said.
  if [[ $root/CMakePresets.json -nt $root/build/$preset/build.ninja ]]; then
    rm -f "$root/build/$preset/build.ninja"
  fi
  # Configured before Qt was there, it does not know the desktop program.
  if [[ " $* " == *" meshwright-gui "* ]] &&
    ! grep -q meshwright-gui "$root/build/$preset/build.ninja" 2>/dev/null; then
    rm -f "$root/build/$preset/build.ninja"
  fi
  if [[ ! -f $root/build/$preset/build.ninja ]]; then
    if command -v ccache >/dev/null; then
      launcher=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache)
    fi
    (cd "$root" && run_quietly "$log" "configuring ($preset)..." \
      cmake --preset "$preset" "${launcher[@]}") ||
      build_failed "$preset" "$log" || return
  fi
  (cd "$root" && run_quietly "$log" "building ($preset)..." \
    cmake --build --preset "$preset" ${1+--target "$@"}) ||
    build_failed "$preset" "$log"
}

build_failed() {
  tail -n 80 "$2" >&2
  say "building ($1) failed; the whole log: $2"
  return 1
}

# Two calls in one folder would build over each other: the second waits.
locked() {
  local lock status=0
  mkdir -p "$root/build" || give_up "$root/build cannot be made"
  exec {lock}>"$root/build/lock"
  if ! flock -w 1 "$lock"; then
    say "waiting for another build in $root"
    flock "$lock"
  fi
  "$@" {lock}>&- || status=$?
  exec {lock}>&-
  return $status
}
