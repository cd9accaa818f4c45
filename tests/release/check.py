#!/usr/bin/env python3
"""Checks tools/release: the same bytes of a commit wherever it is checked out, what it refuses, and what takes the archive.

check.py --root ROOT --work DIR --compiler CXX [--cmake PROGRAM]

It runs in repositories of its own, of the files that an installed library comes from. Exit status 77 (skipped) without git.
"""
import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

SKIPPED = 77
PARTS = ("CMakeLists.txt", "README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff", "conanfile.py", "vcpkg.json", ".gitignore", "cmake",
         "include", "ports", "test_package", "tools", "tests/docs", "bindings/c")
# Of a user whose settings differ in all that could change an archive.
ELSEWHERE = {"TZ": "Pacific/Auckland", "LC_ALL": "C", "GZIP": "-1",
             "GIT_CONFIG_COUNT": "3", "GIT_CONFIG_KEY_0": "core.autocrlf", "GIT_CONFIG_VALUE_0": "input",
             "GIT_CONFIG_KEY_1": "tar.umask", "GIT_CONFIG_VALUE_1": "0077",
             "GIT_CONFIG_KEY_2": "core.attributesFile", "GIT_CONFIG_VALUE_2": "/nowhere"}


def run(*command, **how):
    return subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **how)


def must(*command, **how):
    done = run(*command, **how)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(c) for c in command)}\n{done.stdout}")
    return done.stdout


def git(where, *arguments):
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "2026-01-02T03:04:05+0600"))}
    return must("git", "-C", where, "-c", "init.defaultBranch=main", *arguments, env={**os.environ, **who})


def commit(where):
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--message", "A commit")


def release(where, options, *arguments, **environment):
    return run(where / "tools/release", *arguments, env={**os.environ, "CXX": options.compiler, **environment})


def refused(where, options, change, wanted):
    """A change of the files of a clean repository, and what tools/release must say of it."""
    change(where)
    done = release(where, options)
    left = list((where / "build/release").glob("*.tar.gz"))
    git(where, "checkout", "--quiet", "--force", "main")
    git(where, "clean", "--quiet", "-fd")
    if done.returncode == 0 or wanted not in done.stdout or left:
        return [f"expected a refusal with {wanted!r}, got status {done.returncode}, {len(left)} archives and\n{done.stdout}"]
    return []


def replaced(name, old, new, committed=True):
    """A change of one text, committed on a branch of its own."""
    def change(where):
        text = (where / name).read_text(encoding="utf-8")
        assert old in text, f"{name} has no {old!r}"
        (where / name).write_text(text.replace(old, new), encoding="utf-8")
        if committed:
            git(where, "checkout", "--quiet", "-B", "changed")
            commit(where)
    return change


def faults_of_refusals(where, options, version):
    part = version.split(".")[2]
    cases = [
        (replaced("README.md", "# multidraft", "# Multidraft", committed=False), "README.md"),
        (lambda at: (at / "include/further.hpp").write_text("\n"), "include/further.hpp"),
        (replaced("CHANGELOG.md", f"## [{version}]", "## [0.0.0]"), f"no section \"## [{version}]"),
        (replaced("include/multidraft/version.hpp", f"_PATCH {part}", f"_PATCH {part}7"), "vcpkg.json has another version"),
        (replaced("CITATION.cff", f"version: {version}", "version: 0.0.9"), "CITATION.cff has another version"),
        (replaced("README.md", "return verifier(host_group{}", "return verify(host_group{}"), "does not compile"),
        (lambda at: ((at / ".gitattributes").write_text("LICENSE export-ignore\n"), git(at, "checkout", "--quiet", "-B", "changed"),
                     commit(at)), "export-ignore"),
    ]
    return [fault for change, wanted in cases for fault in refused(where, options, change, wanted)]


def faults_of_archive(archive, where, version):
    """Its hash, its members, and their times and owners."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    faults = []
    if archive.with_name(archive.name + ".sha256").read_text() != f"{digest}  {archive.name}\n":
        faults.append("the file beside the archive has another hash")
    with tarfile.open(archive) as whole:
        members = whole.getmembers()
    top = f"multidraft-{version}"
    tracked = git(where, "ls-files").splitlines()
    if sorted(m.name for m in members if m.isfile()) != sorted(f"{top}/{name}" for name in tracked):
        faults.append("the archive's files are not those that git knows")
    if {(m.mtime, m.uid, m.gid, m.uname) for m in members} != {(1767301445, 0, 0, "root")}:
        faults.append("times or owners are not those of the commit and root")
    if {m.mode for m in members} != {0o644, 0o755}:
        faults.append(f"modes: {sorted({oct(m.mode) for m in members})}")
    if archive.read_bytes()[4:8] != bytes(4):
        faults.append("the head of gzip has a time")
    return faults


def faults_of_packages(out, options, archive):
    """The port and the recipe take the archive that was made, and no other."""
    port = [options.cmake, f"-DPORTFILE={out}/ports/multidraft/portfile.cmake", f"-DINSTALLED={options.work}/vcpkg",
            f"-DBUILD={options.work}/vcpkg_build", f"-DCOMPILER={options.compiler}", "-P",
            options.root / "tests/consumers/vcpkg/functions.cmake"]
    must(*port)
    faults = []
    stated = out / "ports/multidraft/archive.cmake"
    text = stated.read_text()
    stated.write_text(re.sub(r'sha512 "\w', lambda m: m[0][:-1] + ("0" if m[0][-1] != "0" else "1"), text))
    done = run(*port)
    stated.write_text(text)
    if done.returncode == 0 or "hash" not in done.stdout.lower():
        faults.append(f"the port takes an archive with another hash:\n{done.stdout}")
    conan = shutil.which("conan") or shutil.which("conan", path=options.root / "build/tools/bin")
    if not conan:
        print("the Conan recipe is not run: there is no conan")
        return faults
    environment = {**os.environ, "CONAN_HOME": str(options.work / "conan"), "CXX": options.compiler}
    must(conan, "profile", "detect", env=environment)
    create = [conan, "create", out / "conan", "--no-remote", "-s", "compiler.cppstd=20", "-c",
              f"tools.cmake.cmake_layout:test_folder={options.work}/conan_test"]
    must(*create, env=environment)
    moved = archive.with_name("moved")
    archive.rename(moved)
    must(conan, "remove", "*", "--confirm", env=environment)
    if run(*create, env=environment).returncode == 0:
        faults.append("Conan makes its package without the archive")
    moved.rename(archive)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, type=Path)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--cmake", default="cmake")
    options = parser.parse_args()
    if not shutil.which("git"):
        print("skipped: there is no git")
        sys.exit(SKIPPED)
    options.work = options.work.resolve()
    shutil.rmtree(options.work, ignore_errors=True)
    here = options.work / "here"
    (here / "tests").mkdir(parents=True)
    for part in PARTS:
        if (options.root / part).is_dir():
            shutil.copytree(options.root / part, here / part, ignore=shutil.ignore_patterns("__pycache__", "build"))
        else:
            shutil.copy2(options.root / part, here / part)
    version = ".".join(re.findall(r"MULTIDRAFT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                                  (here / "include/multidraft/version.hpp").read_text(encoding="utf-8")))
    git(options.work, "init", "--quiet", "here")
    commit(here)
    faults = faults_of_refusals(here, options, version)

    archive = here / f"build/release/multidraft-{version}.tar.gz"
    done = release(here, options)
    if done.returncode != 0:
        sys.exit(done.stdout)
    print(done.stdout.strip())
    faults += faults_of_archive(archive, here, version)
    faults += faults_of_packages(archive.parent, options, archive)

    # The same commit at another place, by another user.
    there = options.work / "at another place"
    umask = os.umask(0o077)
    git(options.work, "clone", "--quiet", here, there)
    address = f"https://example.org/{archive.name}"
    done = release(there, options, "--url", address, **ELSEWHERE)
    os.umask(umask)
    if done.returncode != 0:
        sys.exit(done.stdout)
    again = there / f"build/release/{archive.name}"
    if again.read_bytes() != archive.read_bytes():
        faults.append("the same commit gives other bytes elsewhere")
    if any(f'"{address}"' not in (again.parent / name).read_text() for name in ("conan/conandata.yml", "ports/multidraft/archive.cmake")):
        faults.append("--url: recipe or port take the archive from another place")
    print("\n".join(faults) if faults else "one commit, one archive")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
