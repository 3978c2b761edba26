"""Parameters in memory: a first look."""

from atoll import governed


def test_a_first_look():
    store = governed.MemoryParameters()
    with governed.acting("ann"):
        assert store.set("ema/alpha", 0.3, "a start") == 1
    store.set("ema/alpha", 0.5, "better", author="bob", expected_version=1)
    store.alias("ema/alpha", "production", 1, "tried", author="ann")
    assert store.get("ema/alpha") == (0.5, 2)
    assert store.get("ema/alpha@production") == (0.3, 1)
    assert store.get("ema/alpha@1").value == store.get("ema/alpha", as_of=1).value == 0.3
    with store.transaction("together", author="ann") as both:
        both.set("a", [1])
        both.lock("ema/alpha")
    assert [change.kind for change in both.changes] == ["set", "lock"]
    assert store.rollback("ema/alpha", 1, "worse", author="ann") == 3
    found = list(store.watch("ema/", after=0, timeout=0.0))
    assert [change.kind for change in found if isinstance(change, governed.Change)] == [
        "set", "set", "alias", "lock", "rollback"
    ]  # fmt: skip
    watch = store.watch(timeout=0.0)
    for number in range(20):
        store.set("b", number, "many", author="ann")
    seen = list(watch)
    assert seen[0] == governed.Gap(7, 10)
    assert len(seen) == 17
    assert dict(store.snapshot("a").values) == {"a": ([1], 1)}
