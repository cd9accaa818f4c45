"""Stages of a program that has a limited time: each ends by itself, writes how it ended, and does not stop the others."""
import json
import os
import signal
import subprocess
import time


class Skipped(Exception):
    """A stage that cannot run here; the text says why."""


class Failed(Exception):
    """A stage that ran and failed; the text says of what."""


def run(command, log, deadline, cwd=None, clock=time.monotonic):
    """Runs a command until `deadline` and returns its output, which also goes to the file `log`. `Failed` where its status is not 0,
    and where it runs over the deadline: it is then killed with all that it started."""
    seconds = deadline - clock()
    if seconds <= 0:
        raise Failed(f"no time left for {os.path.basename(str(command[0]))}")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as out:
        try:
            process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=subprocess.STDOUT, cwd=cwd, start_new_session=True)
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from error
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Failed(f"{os.path.basename(str(command[0]))} ran over its limit of {seconds:.0f} s (output: {log.name})") from None
    text = log.read_text(encoding="utf-8", errors="replace")
    if status != 0:
        last = (text.strip().splitlines() or [""])[-1]
        raise Failed(f"{os.path.basename(str(command[0]))} ended with status {status}: {last[:400]} (output: {log.name})")
    return text


class Stages:
    """The stages of a call, and `stages.jsonl` in its folder."""

    def __init__(self, out, seconds, clock=time.monotonic, show=print):
        out.mkdir(parents=True, exist_ok=True)
        self.out, self.clock, self.show = out, clock, show
        self.end = clock() + seconds
        self.ended = []

    def __call__(self, name, limit, least, work):
        """Calls `work(deadline)`, which has `limit` seconds, or as many as are left; with fewer than `least` left it is skipped."""
        begin = self.clock()
        left = self.end - begin
        if left < least:
            return self._write(name, "skipped", f"{max(left, 0):.0f} s are left, it takes {least} s", begin)
        try:
            note = work(begin + min(limit, left))
            return self._write(name, "ok", note or "", begin)
        except Skipped as reason:
            return self._write(name, "skipped", str(reason), begin)
        except Failed as reason:
            return self._write(name, "failed", str(reason), begin)
        except Exception as error:  # whatever it is, the others run
            return self._write(name, "failed", f"{type(error).__name__}: {error}", begin)

    def _write(self, name, status, reason, begin):
        line = {"stage": name, "status": status, "reason": reason, "seconds": round(self.clock() - begin, 1)}
        self.ended.append(line)
        with (self.out / "stages.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.show(f"{name}: {status} in {line['seconds']} s{': ' + reason if reason else ''}", flush=True)
        return status
