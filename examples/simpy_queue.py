"""A queue with one server in SimPy, whose services are not exponential: its length and its waits.

    python simpy_queue.py            # seconds: answers with intervals, next to exact ones
    python simpy_queue.py --check    # a minute: do intervals of 20 runs hold the exact answers?

People who simulate with SimPy (pip install simpy) often keep a list of (time, value) pairs: when something
changed, and to what. Such a list is evaluated as it is. A value counts for as long as it holds, so its mean
is one over time: the mean over rows would be another number, as there is a row for each change, and changes
come more often when the queue is busy. Waiting times are a plain list, in the order of arrivals.

The exact answers are those of Pollaczek and Khinchine for Poisson arrivals and any law of services.
"""

import argparse
import random

import simpy

import gainbias as gb

ARRIVALS = 0.7  # per minute
SHORT, LONG, SHARE_OF_LONG = 0.5, 3.0, 0.2  # minutes that a service takes, and how many are long


def simulate(minutes, seed):
    """Return what was kept of a run: pairs of time and number of customers, and waiting times."""
    chance, environment = random.Random(seed), simpy.Environment()
    server = simpy.Resource(environment, capacity=1)
    lengths, waits, there = [(0.0, 0)], [], 0

    def note(change):
        nonlocal there
        there += change
        lengths.append((environment.now, there))

    def customer():
        note(+1)
        came, place = environment.now, len(waits)
        waits.append(None)
        with server.request() as turn:
            yield turn
            waits[place] = environment.now - came
            yield environment.timeout(LONG if chance.random() < SHARE_OF_LONG else SHORT)
        note(-1)

    def source():
        while True:
            yield environment.timeout(chance.expovariate(ARRIVALS))
            environment.process(customer())

    environment.process(source())
    environment.run(until=minutes)
    return lengths, [wait for wait in waits if wait is not None]  # the last ones are still waiting


def answers(minutes, seed):
    """Return each answer with its name, its interval and the exact number."""
    lengths, waits = simulate(minutes, seed)
    length = gb.evaluate_log(lengths, time="time", reward_rate="value", end=minutes)
    wait = gb.evaluate_series(waits, quantiles=())
    mean = (1.0 - SHARE_OF_LONG) * SHORT + SHARE_OF_LONG * LONG
    square = (1.0 - SHARE_OF_LONG) * SHORT**2 + SHARE_OF_LONG * LONG**2
    exact = ARRIVALS * square / (2.0 * (1.0 - ARRIVALS * mean))
    return [
        (
            "customers at the server and before it",
            length.gain,
            length.gain_interval,
            ARRIVALS * (exact + mean),
        ),
        ("minutes to wait", wait.mean, wait.interval, exact),
    ]


def main():
    """Read the options, and simulate."""
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("--minutes", type=float, default=50_000.0, help="of a run (default: %(default)s)")
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--check", action="store_true", help="count the runs whose intervals hold")
    reader.add_argument("--runs", type=int, default=20, help="of --check (default: %(default)s)")
    options = reader.parse_args()
    if not options.check:
        for name, found, (low, high), truth in answers(options.minutes, options.seed):
            print(f"{name} {found:.3f}, interval {low:.3f} to {high:.3f}; exact {truth:.3f}")
        return
    held = {}
    for seed in range(options.seed, options.seed + options.runs):
        for name, _, (low, high), truth in answers(options.minutes, seed):
            held.setdefault(name, []).append(low <= truth <= high)
    for name, runs in held.items():
        print(f"{name}: {sum(runs)} of {len(runs)} intervals hold the exact answer")


if __name__ == "__main__":
    main()
