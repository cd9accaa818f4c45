"""Jobs of a program that reads one JSON object a line and answers with one, and their results, kept in a file."""
import concurrent.futures
import hashlib
import json
import subprocess
import threading
import time


class Programs:
    """The program once for each worker, started at its first job."""

    def __init__(self, program, workers):
        self.program, self.local = program, threading.local()
        self.threads = concurrent.futures.ThreadPoolExecutor(workers)

    def __call__(self, job):
        if not hasattr(self.local, "process"):
            self.local.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        process = self.local.process
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.program}: has ended at {job}")
        return json.loads(line)


class KeptJobs:
    """Jobs whose results are kept in `directory`, so that an interrupted call goes on where it was.

    depends_on(job, program): all that a result depends on; `program` is the hash of the program's file.
    options: `program`, `workers`, `fresh` (forgets all results) and `seconds`, after which no job is started.
    """

    def __init__(self, directory, options, depends_on):
        directory.mkdir(parents=True, exist_ok=True)
        self.store, self.depends_on = directory / "runs.jsonl", depends_on
        if options.fresh:
            self.store.unlink(missing_ok=True)
        self.known = {}
        for line in self.store.read_text(encoding="utf-8").splitlines() if self.store.exists() else ():
            try:
                entry = json.loads(line)
                self.known[entry["key"]] = entry["result"]
            except (json.JSONDecodeError, KeyError):
                continue  # cut off by an interruption, or of an earlier form
        self.program = hashlib.sha256(options.program.read_bytes()).hexdigest()
        self.programs = Programs(options.program, options.workers)
        self.lock, self.end = threading.Lock(), time.monotonic() + options.seconds

    def __call__(self, jobs):
        """The results of these jobs, in order; None for those that were not started in time."""
        return list(self.programs.threads.map(self._one, jobs))

    def _one(self, job):
        key = hashlib.sha256(json.dumps(self.depends_on(job, self.program), sort_keys=True).encode()).hexdigest()
        if key not in self.known:
            if time.monotonic() > self.end:
                return None
            result = self.programs(job)
            with self.lock, self.store.open("a", encoding="utf-8") as out:
                self.known[key] = result
                out.write(json.dumps({"key": key, "result": result}) + "\n")
        return self.known[key]
