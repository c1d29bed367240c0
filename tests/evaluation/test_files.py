"""Estimates in files: what was written is read, everything else is named."""

import json
import zipfile

import numpy as np
import pytest
from scipy import sparse

import gainbias as gb
from gainbias.store import DamagedError, as_json
from tests.evaluation.chains import Counter, Queue

ALWAYS = np.ones(6, dtype=int)
ROWS = np.stack([np.ones(6), np.arange(6.0)], axis=1)


class Drift(Counter):
    """Numbers that come back to 0."""

    def step(self, action):
        self.seen[:] = self.np_random.random(2)
        return self.seen, float(self.seen[0]), False, False, {}


def linear(seen):
    return 3.0 * np.column_stack([np.ones(len(seen)), seen])


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "queue.npz"
    gb.evaluate(Queue, ALWAYS, num_steps=3_000).save(path)
    return path


class TestBothWays:
    @pytest.mark.parametrize(
        ("env", "features", "seen"),
        [
            (Queue, "auto", np.arange(6)),
            (Queue, ROWS, np.arange(6)),
            (Queue, sparse.csr_array(5.0 * ROWS), np.arange(6)),
            (Drift, "auto", np.array([[0.2, 0.3], [0.9, 0.1]])),
            (Drift, gb.FourierBasis([0.0, 0.0], [1.0, 1.0], order=1), np.array([[0.2, 0.3], [0.9, 0.1]])),
            (Drift, gb.RadialBasis([0.0, 0.0], [1.0, 1.0], centres=2), np.array([[0.2, 0.3], [0.9, 0.1]])),
        ],
    )
    @pytest.mark.parametrize("on_termination", ["zero", "reward"])
    def test_the_same_answers(self, tmp_path, env, features, seen, on_termination):
        estimate = gb.evaluate(
            env, "random", features=features, num_steps=2_500, chains=2, on_termination=on_termination
        )
        estimate.save(tmp_path / "estimate")
        again = gb.load_estimate(tmp_path / "estimate")
        assert repr(again) == repr(estimate)
        assert as_json(again.to_dict()) == as_json(estimate.to_dict())
        assert again.value(seen).tobytes() == estimate.value(seen).tobytes()
        assert again.value_interval(seen).tobytes() == estimate.value_interval(seen).tobytes()

    def test_a_function_is_asked_for(self, tmp_path):
        estimate = gb.evaluate(Drift, "random", features=linear, num_steps=2_500)
        estimate.save(tmp_path / "estimate")
        with pytest.raises(ValueError, match="are a function, which is not in the file: pass it"):
            gb.load_estimate(tmp_path / "estimate")
        again = gb.load_estimate(tmp_path / "estimate", features=linear)
        assert again.value([0.1, 0.2]) == estimate.value([0.1, 0.2])
        with pytest.raises(ValueError, match="returns 2 features, the estimate was made with 3"):
            gb.load_estimate(tmp_path / "estimate", features=lambda seen: linear(seen)[:, :2])

    def test_a_function_that_is_not_needed(self, stored):
        with pytest.raises(ValueError, match="features are in the file"):
            gb.load_estimate(stored, features=linear)

    def test_nothing_in_it_is_executed(self, stored):
        with np.load(stored, allow_pickle=False) as archive:
            assert all(archive[name].dtype.kind != "O" for name in archive)


class TestWrongFiles:
    def test_a_bit_that_flipped_anywhere(self, stored, tmp_path):
        content = stored.read_bytes()
        rng = np.random.default_rng(0)
        found = 0
        for place in rng.integers(0, len(content), 60):
            damaged = bytearray(content)
            damaged[place] ^= 1 << int(rng.integers(8))
            (tmp_path / "damaged").write_bytes(damaged)
            try:
                again = gb.load_estimate(tmp_path / "damaged")
            except DamagedError:
                found += 1
            else:  # in a field of the archive that means nothing, such as a date
                assert as_json(again.to_dict()) == as_json(gb.load_estimate(stored).to_dict())
        assert found > 30

    @pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
    def test_cut_short(self, stored, tmp_path, share):
        content = stored.read_bytes()
        (tmp_path / "short").write_bytes(content[: int(share * len(content))])
        with pytest.raises(DamagedError, match="is damaged, or no estimate"):
            gb.load_estimate(tmp_path / "short")

    def test_something_else(self, tmp_path):
        np.savez(tmp_path / "other.npz", record=np.array('{"kind": "recipe"}'), weights=np.ones(3))
        with pytest.raises(ValueError, match="no estimate of gainbias"):
            gb.load_estimate(tmp_path / "other.npz")
        np.savez(tmp_path / "other.npz", weights=np.ones(3))
        with pytest.raises(ValueError, match="no estimate of gainbias"):
            gb.load_estimate(tmp_path / "other.npz")
        (tmp_path / "other.npz").write_text("gain: 3")
        with pytest.raises(ValueError, match=r"no estimate of gainbias: it is not an archive$"):
            gb.load_estimate(tmp_path / "other.npz")
        with pytest.raises(ValueError, match="there is no file"):
            gb.load_estimate(tmp_path / "none.npz")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"version": 9}, "has version 9, this gainbias reads version 2: update gainbias"),
            ({"gain": 7.0}, "checksum"),
            ({"version": "x"}, "its header is incomplete"),
            ({"version": None}, "its header is incomplete"),
        ],
    )
    def test_a_newer_or_a_changed_one(self, stored, tmp_path, change, message):
        with np.load(stored) as archive:
            arrays = dict(archive)
        head = json.loads(str(arrays["record"]))
        if "gain" in change:
            head["record"] |= change
        else:
            head |= change
        np.savez(tmp_path / "changed.npz", **arrays | {"record": np.array(json.dumps(head))})
        with pytest.raises(ValueError, match=message):
            gb.load_estimate(tmp_path / "changed.npz")

    def test_it_is_an_ordinary_archive(self, stored):
        assert zipfile.is_zipfile(stored)
