"""Governance as a person uses it: decisions with a name and a reason, locks, the way back, the log."""

import contextlib

from playwright.sync_api import expect

from atoll import governed
from tests.dashboard import sample_data


def test_proposal_is_read_and_approved_with_reason(scene):
    first = scene.sample_store.proposals[0]
    page = scene.go("/governance")
    expect(page.get_by_text("2 of 2 pending")).to_be_visible()
    page.get_by_role("link", name="Go faster").click()
    card = page.locator(".card", has=page.get_by_role("heading", name="Go faster"))
    expect(card.get_by_text("content hash")).to_be_visible()
    expect(card.get_by_text("expires")).to_be_visible()
    expect(card.get_by_label("change of speed").locator("ins")).to_have_text("3")
    expect(card).to_contain_text('<img src="x" onerror="window.hacked = 2">')
    stages = card.get_by_role("list", name="Stages of the proposal")
    expect(stages.locator("[aria-current]")).to_have_text("approvals 0 of 1")
    form = f"Decide on {first}"
    page.get_by_role("form", name=form).get_by_role("button", name="Approve").click()
    expect(page.get_by_role("form", name=form).get_by_role("status")).to_have_text("Enter your name.")
    expect(scene.sign(form, "carol", "   ", "Approve")).to_have_text("Enter a reason.")
    scene.is_refused = True
    expect(scene.sign(form, "AGENT", "I want it", "Approve")).to_contain_text(
        "authors cannot approve their own proposals"
    )
    page.get_by_role("form", name=form).get_by_label("Your name").fill("carol")
    scene.sign(form, "carol", "measured twice", "Approve")
    expect(card.get_by_text("measured twice")).to_be_visible()
    expect(card.locator(".badge")).to_have_text("applied")
    expect(stages).to_contain_text("✓ applied")
    assert governed.StoredParameters(scene.run_store).get("speed").value == 3
    page.reload()  # the name was typed once
    page.goto(f"{scene.base}/#/governance/proposals/{scene.sample_store.proposals[1]}")
    other = page.get_by_role("form", name=f"Decide on {scene.sample_store.proposals[1]}")
    expect(other.get_by_label("Your name")).to_have_value("carol")
    scene.sign(f"Decide on {scene.sample_store.proposals[1]}", "carol", "not now", "Reject")
    expect(page.locator(".card .badge", has_text="rejected").first).to_be_visible()


def test_parameter_is_compared_locked_and_rolled_back(scene):
    page = scene.go("/governance/parameters")
    expect(page.get_by_role("link", name="prompt/system")).to_be_visible()
    page.get_by_role("link", name="risk/penalty").click()
    expect(page.get_by_label("from 1 to 2")).to_contain_text("-0.5")
    scene.sign("lock risk/penalty", "ann", "release week", "Lock")
    expect(page.get_by_text("by ann: release week")).to_be_visible()
    scene.sign("Roll risk/penalty back", "ann", "0.4 was worse", "Roll back")
    expect(page.get_by_text("rollback to 1: ")).to_be_visible()
    scene.sign("unlock risk/penalty", "ann", "released", "Unlock")
    expect(page.get_by_role("form", name="lock risk/penalty", exact=True)).to_be_visible()
    known = governed.StoredParameters(scene.run_store)
    assert (known.get("risk/penalty"), known.get_lock("risk/penalty")) == ((0.5, 3), None)
    page.get_by_label("include reserved keys (playbooks, proposals, rollouts, tools, commands)").check()
    expect(page.get_by_role("link", name="playbook/cook")).to_be_visible()


def test_rollout_intervals_abort_and_audit(scene):
    page = scene.go("/governance/rollouts")
    expect(page.get_by_role("listitem").filter(has_text="canary 1 %")).to_have_attribute("aria-current", "step")
    shadow = page.get_by_role("table", name="Shadow run of risk/penalty")
    expect(shadow.get_by_role("row", name="fitness")).to_contain_text(" to ")
    page.once("dialog", lambda dialog: dialog.accept())
    scene.sign("Abort the rollout of risk/penalty", "ann", "customers complain", "Abort and roll back")
    expect(page.get_by_text("rolled back", exact=True)).to_be_visible()
    page.get_by_role("tab", name="Audit").click()
    expect(page.get_by_text("changes verified")).to_be_visible()
    with scene.run_store.database.begin_write() as connection:
        connection.exec_driver_sql("update changes set reason = 'another' where seq = 3")
    warning = page.get_by_text("The change log was modified.")
    for _ in range(6):  # an update of the page may replace the button at the moment of a click
        page.get_by_role("button", name="Verify again").click()
        with contextlib.suppress(AssertionError):
            expect(warning).to_be_visible(timeout=10_000)
            break
    expect(warning).to_be_visible()


def test_decision_without_token_is_not_sent(scene):
    scene.page.context.clear_cookies()
    page = scene.go(f"/governance/proposals/{scene.sample_store.proposals[0]}")
    page.reload()
    form = f"Decide on {scene.sample_store.proposals[0]}"
    expect(scene.sign(form, "carol", "so", "Approve")).to_have_text("Changes need the token.")
    assert governed.Evolver(governed.StoredParameters(scene.run_store)).proposals.get(
        scene.sample_store.proposals[0]
    ).status == ("pending")


def test_hostile_text_stays_text(scene):
    page = scene.go("/governance/parameters/prompt%2Fsystem")
    expect(page.get_by_label("current value")).to_contain_text("<script>window.hacked = 1</script>")
    expect(page.get_by_label("current value").locator(".hidden-mark").first).to_have_text("RLO")
    assert page.locator("main script, main img, main a[href^='javascript']").count() == 0
    assert sample_data.HOSTILE[:20] in page.get_by_label("current value").inner_text()
