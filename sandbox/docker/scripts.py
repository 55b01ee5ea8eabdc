"""Shell scripts that run inside the container. POSIX sh builtins only: an image may hold nothing but /bin/sh.

They never fork: under a fork bomb that has used up the process limit a shell that
needs a child would fail, and the bomb would stay.
"""

from __future__ import annotations

from pathlib import Path

from ..base.files import atomic_write

FOLDER = "/.whimbrel"
"""Where the scripts lie inside, read-only: as arguments they would show up in every process list."""

MARK = "WHIMBREL_COMMAND"
"""Environment variable that tells the processes of one command from those of another."""

READY = "whimbrel: ready"

KEEPER = f"""
trap 'echo "whimbrel: told to end"; exit 0' TERM
echo "{READY}"
while :; do sleep 3600 & wait $!; done
"""
"""The container's own process: keeps it alive and does nothing else."""

# A process belongs to command $mark when it carries the mark, or descends from one that does.
# When no other command runs (no other process was entered from outside, which shows as parent 0)
# everything belongs to it, daemons that threw their environment away included. The container's
# keeper has another uid and cannot be hit.
_TREE = """
look() {
  parent=; state=
  while read -r key value rest; do
    case $key in
      State:) state=$value ;;
      PPid:) parent=$value; break ;;
    esac
  done 2>/dev/null < "/proc/$1/status"
  [ -n "$parent" ]
}
marked() {
  owner=none
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
      *"WHIMBREL_COMMAND=$mark"*) owner=mine; return ;;
      *WHIMBREL_COMMAND=*) owner=other ;;
    esac
  done 2>/dev/null < "/proc/$1/environ"
}
judge() {
  verdict=keep
  look "$1" || return
  case $state in Z|X) return ;; esac
  if [ $alone = yes ] && [ "$parent" != 0 ]; then verdict=end; return; fi
  seen=$state; marked "$1"
  [ $owner = mine ] && { verdict=end; state=$seen; return; }
  [ "$parent" = 0 ] && return
  up=$parent; depth=0
  while [ "$up" -gt 1 ] && [ $depth -lt 600 ]; do
    marked "$up"
    [ $owner = mine ] && { verdict=end; state=$seen; return; }
    look "$up" || return
    [ "$parent" = 0 ] && return
    up=$parent; depth=$((depth + 1))
  done
  state=$seen
}
crowd() {
  alone=yes
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/}
    [ "$pid" = $$ ] || [ "$pid" = 1 ] && continue
    look "$pid" || continue
    [ "$parent" = 0 ] || continue
    marked "$pid"
    [ $owner = mine ] || { alone=no; return; }
  done
}
each() {
  signal=$1; count=0; moved=0
  crowd
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/}
    [ "$pid" = $$ ] || [ "$pid" = 1 ] && continue
    judge "$pid"
    [ $verdict = end ] || continue
    if [ "$signal" = 0 ]; then
      kill -0 "$pid" 2>/dev/null && count=$((count + 1))
    elif kill -"$signal" "$pid" 2>/dev/null; then
      count=$((count + 1))
      [ "$state" = T ] || moved=$((moved + 1))
    fi
  done
}
clock() { read -r now rest < /proc/uptime; now=${now%%.*}${now#*.}; }
patience() {
  clock; until=$((now + $1))
  while each 0; [ $count -gt 0 ]; do
    clock
    [ "$now" -lt $until ] || return 1
  done
}
finish() {
  rounds=0
  while [ $rounds -lt 50 ]; do
    stops=0
    while each STOP; [ $moved -gt 0 ] && [ $stops -lt 20 ]; do stops=$((stops + 1)); done
    each KILL
    [ $count -eq 0 ] && return 0
    rounds=$((rounds + 1))
  done
  return 1
}
"""

_COMMAND = """
mark=$WHIMBREL_COMMAND
cd "$1" || exit 126
shift
(exec "$@"{stdin})
code=$?
{quiet}
if ! patience 30; then each TERM; patience 50 || finish; fi
exit $code
"""
# 30 and 50 hundredths of a second: first to let a process substitution such as `tee` write its
# rest, then to let what was asked to end do so.

_RUN = "exec 2>&1\n" + _TREE + _COMMAND.format(stdin=" </dev/null", quiet="exec >/dev/null 2>&1")
"""Arguments: directory, command... Runs it, then ends whatever it left behind."""

_CHANNEL = _TREE + _COMMAND.format(stdin="", quiet="exec >/dev/null 2>&1")
"""The same with stdin attached and stderr apart."""

_END = "mark=$1\n" + _TREE + "each TERM\n[ $count -eq 0 ] && exit 0\npatience 100 || finish\n"
"""Argument: mark. Ends the processes of that command; exit code 0 when none is left."""

_PROBE = """
directory=$1
shift
for target; do
  [ -e "$target" ] && continue
  place=
  IFS=/
  for part in $target; do
    [ -n "$part" ] || continue
    place=$place/$part
    [ -d "$place" ] && [ ! -x "$place" ] && { echo "$place"; break; }
  done
  unset IFS
done
cd "$directory" || exit 3
[ -w . ] || exit 4
"""
"""Arguments: working directory, mount targets... Prints the directories that keep us from a target."""

_READ = """
[ -e "$1" ] || exit 41
[ -d "$1" ] && exit 42
[ -f "$1" ] || exit 43
[ -r "$1" ] || exit 44
exec cat "$1"
"""

_WRITE = """
umask 022
case $1 in */*) mkdir -p "${1%/*}" || exit 45 ;; esac
[ -d "$1" ] && exit 42
if [ -e "$1" ] && [ ! -f "$1" ]; then exit 43; fi
temporary=$1.$2.tmp
[ -e "$1" ] && { cp -p "$1" "$temporary" || exit 45; }
cat > "$temporary" || { rm -f "$temporary"; exit 45; }
[ "$3" = x ] && { chmod a+x "$temporary" || exit 45; }
mv -f "$temporary" "$1" || { rm -f "$temporary"; exit 45; }
"""

_ENTERABLE = 'cd "$1"\n'

_OUT_OF_MEMORY = """
for counter in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  while read -r key value; do
    [ "$key" = oom_kill ] && echo "$value"
  done 2>/dev/null < "$counter"
done
exit 0
"""
# How often the kernel killed a process here at the memory limit (cgroup v2, then v1). The daemon's
# own flag tells of the container's first process only.

SCRIPTS = {
    "run": _RUN,
    "channel": _CHANNEL,
    "end": _END,
    "probe": _PROBE,
    "read": _READ,
    "write": _WRITE,
    "enterable": _ENTERABLE,
    "out-of-memory": _OUT_OF_MEMORY,
}


def write_scripts(folder: Path) -> None:
    """Lays the scripts out on the host, to be mounted at ``FOLDER``."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    for name, text in SCRIPTS.items():
        atomic_write(folder / name, text.encode("ascii"), mode=0o644)
