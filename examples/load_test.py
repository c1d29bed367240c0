"""Latencies of a real server under a load generator: their mean and their quantiles.

    python load_test.py                # about 20 s: mean and quantiles with intervals, and a verdict
    python load_test.py --check        # about 5 minutes: do intervals of short runs hold a long run's answer?

The server is a process of its own behind a loopback socket. It has one worker, which takes requests in their
order, and each keeps it busy for a random time. Requests that come meanwhile wait, so latencies depend on
each other: a slow request makes its successors slow.

The load generator is open-loop. It decides when each request is due before it starts, and a latency counts
from that moment, even if the request was sent late. A generator that waits for an answer before it sends the
next request, or that counts from the moment of sending, leaves out the very requests that had to wait
("coordinated omission"). Some requests are due at once in the beginning, as after a restart. That is a
warm-up, and the answer should not contain it.

What the machine adds: a timer wakes up late, by 0.05 to 0.1 ms where this was written. So the worker sleeps
and watches the clock in the last 0.2 ms; the generator does not, and its lateness counts as latency. Sockets
and the interpreter take time for each request, which makes the load higher than was asked for. Other
processes can take the core away for milliseconds: on a machine that is busy otherwise the queue may grow for
seconds, and the verdict says that there is no steady state to be seen, or that the run is too short. A laptop
that gets hot makes one run differ from the next by more than chance, and no interval of one run contains
that: use a quiet machine, and longer services (--service-ms 4) where it is not. A textbook's answer for a
server without all this is printed for orientation. The reference is a long run on the same machine.
"""

import argparse
import csv
import math
import multiprocessing
import random
import select
import socket
import time
from pathlib import Path

import gainbias as gb

WATCHED = 0.0002
"""Seconds before the end of a service during which the worker watches the clock: a sleep may end late."""


def serve(port, service, seed):
    """Answer the requests of one client, one byte each, one after the other; `service` is in seconds."""
    chance = random.Random(seed)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port.send(listener.getsockname()[1])
        client, _ = listener.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client:
        while requests := client.recv(4096):
            for _ in requests:
                end = time.perf_counter() + chance.expovariate(1.0 / service)
                time.sleep(max(0.0, end - time.perf_counter() - WATCHED))
                while time.perf_counter() < end:
                    pass
                client.sendall(b".")


def schedule(requests, backlog, rate, seed):
    """Return when requests are due, in seconds from the start: a backlog at once, then a Poisson process."""
    chance, due = random.Random(seed), [0.0] * min(backlog, requests)
    now = 0.0
    while len(due) < requests:
        now += chance.expovariate(rate)
        due.append(now)
    return due


def latencies_of(due, port):
    """Send each request when it is due, and return its latency from that moment on, in seconds.

    The server answers in the order of requests, so the k-th byte that comes back is the k-th answer.
    """
    latencies, sent = [], 0
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        start = time.perf_counter()
        while len(latencies) < len(due):
            left = max(0.0, start + due[sent] - time.perf_counter()) if sent < len(due) else None
            answered, _, _ = select.select([server], [], [], left)
            now = time.perf_counter() - start
            if answered:
                count = len(server.recv(4096))
                if not count:
                    raise ConnectionError("the server has gone")
                latencies += [now - due[k] for k in range(len(latencies), len(latencies) + count)]
            ready = sent
            while ready < len(due) and due[ready] <= now:
                ready += 1
            server.sendall(b"?" * (ready - sent))
            sent = ready
    return latencies


def measure(path, requests, options, seed):
    """Run server and generator once, and write a row for each request: when it was due, and its latency."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    service = options.service_ms / 1e3
    server = context.Process(target=serve, args=(there, service, 2 * seed), daemon=True)
    server.start()
    try:
        due = schedule(requests, options.backlog, options.load / service, 2 * seed + 1)
        latencies = latencies_of(due, here.recv())
    finally:
        server.terminate()
        server.join()
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["due_s", "ms"])
        rows.writerows((f"{at:.6f}", f"{1e3 * late:.4f}") for at, late in zip(due, latencies, strict=True))


def evaluate(path):
    """Return mean and quantiles of the latencies in a file."""
    return gb.evaluate_series(path, column="ms", quantiles=(0.5, 0.95, 0.99))


def with_interval(name, found, interval):
    """Return a number of milliseconds in words."""
    if interval is None:
        return f"{name} {found:.3f} ms, no interval"
    return f"{name} {found:.3f} ms, interval {interval[0]:.3f} to {interval[1]:.3f}"


def run_once(options):
    """Measure once, and say what was found and what a textbook says."""
    measure(options.csv, options.requests, options, options.seed)
    estimate = evaluate(options.csv)
    print(estimate, "\n")
    tail = estimate.quantiles[0.99]
    mean = options.service_ms / (1.0 - options.load)
    print(f"{with_interval('mean', estimate.mean, estimate.interval)}; textbook {mean:.3f}")
    print(f"{with_interval('p99', tail.value, tail.interval)}; textbook {mean * math.log(100.0):.3f}")
    print(f"\nEvery latency is in {options.csv}. The textbook's server loses no time between requests.")


def check(options):
    """Measure once for long and several times for short, and count the short runs whose intervals hold."""
    requests = options.longer * options.requests
    print(f"one run of {requests:,} requests, then {options.runs} of {options.requests:,} ...", flush=True)
    measure(options.csv, requests, options, options.seed)
    long = evaluate(options.csv)
    print(long, "\n")
    if not long.verdict.is_trusted:
        print("The long run was not steady, or too short: what follows says little. Is the machine busy?\n")
    answers = {"mean": long.mean} | {f"p{one.level:.0%}".rstrip("%"): one.value for one in long.levels}
    trusted, held = dict.fromkeys(answers, 0), dict.fromkeys(answers, 0)
    for run in range(1, options.runs + 1):
        measure(options.csv, options.requests, options, options.seed + run)
        short = evaluate(options.csv)
        print(with_interval(f"run {run:2d}: mean", short.mean, short.interval), f"({short.verdict.kind})")
        intervals = [short.interval, *(one.interval for one in short.levels)]
        for (name, answer), interval in zip(answers.items(), intervals, strict=True):
            if short.verdict.is_trusted and interval is not None:
                trusted[name] += 1
                held[name] += interval[0] <= answer <= interval[1]
    for name, count in held.items():
        print(f"{name}: {count} of {trusted[name]} trusted intervals hold the long run's answer")
    # The long run has an error of its own, which is independent of that of a short one.
    share = math.erf(1.96 / math.sqrt(2.0 * (1.0 + 1.0 / options.longer)))
    print(f"About {share:.0%} are to be expected on a quiet machine: the long run is not exact either.")


def main():
    """Read the options, and measure."""
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("--requests", type=int, default=20_000, help="of a run (default: %(default)s)")
    reader.add_argument("--service-ms", type=float, default=0.5, help="mean time of service")
    reader.add_argument("--load", type=float, default=0.5, help="share of time in which the worker is busy")
    reader.add_argument("--backlog", type=int, default=400, help="requests that are due at the start")
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--csv", type=Path, default=Path("latencies.csv"), help="file to be written")
    reader.add_argument("--check", action="store_true", help="compare short runs with a long one")
    reader.add_argument("--runs", type=int, default=10, help="short runs of --check")
    reader.add_argument("--longer", type=int, default=5, help="times that the long run of --check is longer")
    options = reader.parse_args()
    if not 0.0 < options.load < 1.0:
        reader.error("--load must be between 0 and 1: otherwise the queue grows for ever")
    if options.requests < 1 or not options.service_ms > 0.0 or options.backlog < 0:
        reader.error("--requests and --service-ms must be positive, and --backlog not negative")
    (check if options.check else run_once)(options)


if __name__ == "__main__":
    main()
