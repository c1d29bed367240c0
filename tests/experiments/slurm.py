"""Slurm itself on this machine, for tests: one controller and one node of four processors, without systemd.

Debian has all of it in the packages slurm-wlm and munge. The daemons run as root, as the node's must.
"""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=2
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=16000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Return why Slurm cannot be run here; empty if it can."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing:
        return f"{', '.join(missing)} not found: apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "Slurm's daemon of a node has to be root"


class Slurm:
    """Slurm's daemons, and what is asked of them."""

    def __init__(self, folder: Path) -> None:
        host, key = socket.gethostname().partition(".")[0], folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        folder.chmod(0o755)  # munge refuses places that others may write to, or may not enter
        for name in ("state", "spool"):
            (folder / name).mkdir()
        file = folder / "slurm.conf"
        file.write_text(CONFIGURATION.format(host=host, folder=folder, ports=[_free_port(), _free_port()]))
        path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
        self.environment = {**os.environ, "SLURM_CONF": str(file), "PATH": path}
        self._log, self._daemons = open(folder / "slurm.log", "wb"), []  # noqa: SIM115
        places = {"socket": "munge.socket", "pid-file": "munged.pid", "seed-file": "munge.seed"}
        munge = [f"--{name}={folder / place}" for name, place in places.items()]
        self._start("munged", "-F", "-f", f"--key-file={key}", f"--log-file={folder / 'munge.log'}", *munge)
        while not (folder / "munge.socket").exists():
            time.sleep(0.05)
        self._start("slurmctld", "-D", "-i")
        self._start("slurmd", "-D")

    def _start(self, *words: str) -> None:
        self._daemons.append(
            subprocess.Popen(words, stdout=self._log, stderr=self._log, env=self.environment)
        )

    def ask(self, *words: str) -> str:
        """Call a program of Slurm, and return what it says."""
        called = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=30)
        assert called.returncode == 0, called.stderr
        return called.stdout.strip()

    def jobs(self) -> list[str]:
        """Return the ids of jobs that run."""
        return self.ask("squeue", "--noheader", "--format=%A", "--states=RUNNING").split()

    def end(self) -> None:
        """End all jobs, then the daemons."""
        with suppress(AssertionError, subprocess.TimeoutExpired):
            self.ask("scancel", "--user=root")
            for _ in range(100):
                if not self.ask("squeue", "--noheader"):
                    break
                time.sleep(0.1)
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait(timeout=30)
        self._log.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    folder.mkdir()
    made = Slurm(folder)
    try:
        for _ in range(300):
            with suppress(AssertionError):
                if "idle" in made.ask("sinfo", "--noheader", "--format=%T"):
                    break
            time.sleep(0.1)
        else:
            raise AssertionError((folder / "slurm.log").read_text())
        yield made
    finally:
        made.end()
