"""A data set in its parts."""

import pytest

from atoll import errors
from atoll.programs.gepa import dataset


def test_shares_are_disjoint_and_make_up_the_whole():
    data, sealed = dataset.split_dataset(range(20), 0.3, 0.2, seed=1)
    assert sealed is not None
    parts = [set(data.train), set(data.validation), set(sealed.open())]
    assert [len(part) for part in parts] == [10, 6, 4]
    assert set.union(*parts) == set(range(20))


def test_without_shares_what_is_learned_from_chooses_too_and_keeps_its_order():
    data, sealed = dataset.split_dataset([3, 1, 2])
    assert data.train == data.validation == [3, 1, 2]
    assert sealed is None


def test_the_seed_says_who_is_in_a_share():
    first, again, other = (dataset.split_dataset(range(50), 0.5, seed=seed)[0] for seed in (1, 1, 2))
    assert first == again != other


def test_a_sealed_set_opens_once_and_no_part_of_a_search_holds_it():
    data, sealed = dataset.split_dataset(["a", "b"], test=["secret"])
    assert sealed is not None
    assert "secret" not in repr(data)
    assert "secret" not in repr(vars(sealed).keys())
    assert sealed.open() == ["secret"]
    with pytest.raises(errors.Conflict, match="scored before"):
        sealed.open()


@pytest.mark.parametrize(
    ("validation", "test", "said"),
    [
        (1.5, None, "between 0 and 1"),
        (None, 0, "between 0 and 1"),
        ([], None, "is empty"),
        (0.9, 0.9, "is left for training"),
    ],
)
def test_a_share_that_is_none_is_a_mistake(validation, test, said):
    with pytest.raises(errors.SetupError, match=said):
        dataset.split_dataset(range(4), validation, test)


def test_minibatches_part_the_train_set_and_stay_the_same():
    data, _ = dataset.split_dataset(range(10))
    batches = data.make_batches(3, seed=4)
    assert batches == data.make_batches(3, seed=4)
    assert [len(batch) for batch in batches] == [3, 3, 3]
    assert len({place for batch in batches for place in batch}) == 9
    assert data.make_batches(30, seed=4) == [tuple(range(10))]
