"""The turns of lives, one after the other."""


def test_all_turns_that_were_kept_come_once_and_in_their_order(decider, place):  # B20
    seen: list[tuple[int, int]] = []
    after: dict[str, str] = {}
    while True:
        page = decider.get("/snapshots", params={"run": place.lives, "limit": 40, **after}).json()
        seen += [(turn["episode"], turn["turn"]) for turn in page["snapshots"]]
        after = {"after": page["next"]}
        if not page["has_more"]:
            break
    assert seen == sorted(set(seen))
    assert {episode for episode, _ in seen} == {1, 2, 3}
    assert page["is_live"] is False
    assert decider.get("/snapshots", params={"run": place.lives, **after}).json()["snapshots"] == []


def test_a_run_of_minds_has_none(decider, place):
    assert decider.get("/snapshots", params={"run": place.texts}).json()["snapshots"] == []
