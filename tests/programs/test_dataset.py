"""Splits of a data set."""

import pytest

from atoll import errors
from atoll.programs.gepa import minibatch


def test_shares_are_disjoint_and_cover_the_data():
    data, sealed = minibatch.split_dataset(range(20), 0.3, 0.2, seed=1)
    assert sealed is not None
    parts = [set(data.train), set(data.validation), set(sealed.open())]
    assert [len(part) for part in parts] == [10, 6, 4]
    assert set.union(*parts) == set(range(20))


def test_without_shares_training_data_is_also_validation_data():
    data, sealed = minibatch.split_dataset([3, 1, 2])
    assert data.train == data.validation == [3, 1, 2]
    assert sealed is None


def test_seed_determines_the_split():
    first, again, other = (minibatch.split_dataset(range(50), 0.5, seed=seed)[0] for seed in (1, 1, 2))
    assert first == again != other


def test_sealed_set_opens_once_and_is_not_in_the_data():
    data, sealed = minibatch.split_dataset(["a", "b"], test=["secret"])
    assert sealed is not None
    assert "secret" not in repr(data)
    assert "secret" not in repr(vars(sealed).keys())
    assert sealed.open() == ["secret"]
    with pytest.raises(errors.Conflict, match="scored before"):
        sealed.open()


@pytest.mark.parametrize(
    ("validation", "test", "message"),
    [
        (1.5, None, "between 0 and 1"),
        (None, 0, "between 0 and 1"),
        ([], None, "is empty"),
        (0.9, 0.9, "is left for training"),
    ],
)
def test_invalid_share_raises_setup_error(validation, test, message):
    with pytest.raises(errors.SetupError, match=message):
        minibatch.split_dataset(range(4), validation, test)


def test_no_data_raises_setup_error():
    with pytest.raises(errors.SetupError, match="data has no instances"):
        minibatch.split_dataset([], None, 0.3)


def test_minibatches_are_disjoint_and_reproducible():
    data, _ = minibatch.split_dataset(range(10))
    batches = data.make_batches(3, seed=4)
    assert batches == data.make_batches(3, seed=4)
    assert [len(batch) for batch in batches] == [3, 3, 3]
    assert len({index for batch in batches for index in batch}) == 9
    assert data.make_batches(30, seed=4) == [tuple(range(10))]


@pytest.mark.parametrize("data", [5, "questions.jsonl", {"question": "answer"}])
def test_data_that_is_no_list_is_rejected(data):
    with pytest.raises(errors.SetupError, match=r"^data is .*\. Pass a list of instances\.$"):
        minibatch.split_dataset(data)
