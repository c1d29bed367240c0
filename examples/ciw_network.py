"""A clinic as a network of queues in Ciw: how many patients are there, and how long they wait.

    python ciw_network.py                    # seconds: answers with intervals, next to exact ones
    python ciw_network.py --check            # a minute: do intervals of 20 runs hold the exact answers?
    python ciw_network.py --csv clinic.csv   # writes a row for each visit to a node as well

Patients come to a reception with one desk. Some go on to one of three doctors, and some of those are sent
back to the reception. Ciw (pip install ciw) writes a record for each visit to a node. Waiting times are a
plain series, in the order of arrivals. The number of patients in the clinic is a step function: each value
counts for as long as it holds. Those who are still there when the simulation ends belong to it.

The exact answers are those of a Jackson network: each node by itself is a queue with Poisson arrivals.
"""

import argparse
import csv
import math

import ciw

import gainbias as gb

NODES = ("reception", "doctors")
ARRIVALS, SERVERS, SERVICES = 10.0, (1, 3), (20.0, 5.0)  # patients per hour; per hour and server
TO_DOCTORS, BACK = 0.8, 0.1


def simulate(hours, seed):
    """Return the records of a run: named tuples, one for each visit to a node, in no order of time."""
    clinic = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(ARRIVALS), None],
        service_distributions=[ciw.dists.Exponential(rate) for rate in SERVICES],
        number_of_servers=list(SERVERS),
        routing=[[0.0, TO_DOCTORS], [BACK, 0.0]],
    )
    ciw.seed(seed)
    simulation = ciw.Simulation(clinic)
    simulation.simulate_until_max_time(hours)
    return simulation.get_all_records(include_incomplete=True)  # those who are still there, too


def write(path, records):
    """Write the visits into a CSV file, in the order of arrivals; those that have not ended have gaps."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["node", "arrived", "waited", "left"])
        for one in sorted(records, key=lambda one: one.arrival_date):
            numbers = (one.arrival_date, one.waiting_time, one.exit_date)
            texts = ("" if number is None else f"{number:.4f}" for number in numbers)
            rows.writerow([NODES[one.node - 1], *texts])


def evaluate(records, hours):
    """Return the patients in the clinic in the mean over time, and waiting times at each node."""
    visits = gb.number_in_system([one.arrival_date for one in records], [one.exit_date for one in records])
    there = gb.evaluate_log(visits, time="time", reward_rate="count", end=hours)
    waits = []
    for node in range(len(NODES)):
        begun = [one for one in records if one.node == node + 1 and one.waiting_time is not None]
        waits.append(gb.evaluate_series(begun, quantiles=(0.95,), column="waiting_time"))
    return there, waits


def exact():
    """Return the mean number of patients, and mean and 95% quantile of the waiting time at each node."""
    first = ARRIVALS / (1.0 - TO_DOCTORS * BACK)
    there, waits = 0.0, []
    for rate, servers, service in zip((first, TO_DOCTORS * first), SERVERS, SERVICES, strict=True):
        load = rate / service
        terms = [load**k / math.factorial(k) for k in range(servers)]
        last = load**servers / math.factorial(servers) / (1.0 - load / servers)
        must_wait, spare = last / (sum(terms) + last), servers * service - rate
        waits.append((must_wait / spare, max(0.0, math.log(must_wait / 0.05) / spare)))
        there += load + rate * must_wait / spare
    return there, waits


def answers(records, hours):
    """Return each answer with its name, its interval and the exact number; times in minutes."""
    there, waits = evaluate(records, hours)
    exact_there, exact_waits = exact()
    found = [("patients in the clinic", there.gain, there.gain_interval, exact_there)]
    for name, wait, (mean, tail) in zip(NODES, waits, exact_waits, strict=True):
        tail_found = wait.quantiles[0.95]
        found.append((f"{name}: mean wait in minutes", *in_minutes(wait.mean, wait.interval, mean)))
        found.append(
            (f"{name}: 95% wait no longer", *in_minutes(tail_found.value, tail_found.interval, tail))
        )
    return found


def in_minutes(found, interval, answer):
    """Return hours as minutes; a quantile for which a run is too short has no interval."""
    return 60.0 * found, interval and tuple(60.0 * end for end in interval), 60.0 * answer


def check(options):
    """Count the runs whose intervals hold the exact answers."""
    held = {}
    for seed in range(options.seed, options.seed + options.runs):
        for name, _, interval, truth in answers(simulate(options.hours, seed), options.hours):
            if interval is not None:
                held.setdefault(name, []).append(interval[0] <= truth <= interval[1])
    for name, runs in held.items():
        print(f"{name}: {sum(runs)} of {len(runs)} intervals hold the exact answer")


def main():
    """Read the options, and simulate."""
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("--hours", type=float, default=1_000.0, help="of a run (default: %(default)s)")
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--csv", help="file to which all visits are written")
    reader.add_argument("--check", action="store_true", help="count the runs whose intervals hold")
    reader.add_argument("--runs", type=int, default=20, help="of --check (default: %(default)s)")
    options = reader.parse_args()
    if options.check:
        check(options)
        return
    records = simulate(options.hours, options.seed)
    if options.csv:
        write(options.csv, records)
    for name, found, interval, truth in answers(records, options.hours):
        known = "no interval" if interval is None else f"interval {interval[0]:.3f} to {interval[1]:.3f}"
        print(f"{name} {found:.3f}, {known}; exact {truth:.3f}")


if __name__ == "__main__":
    main()
