"""The playbook view."""

from playwright.sync_api import expect

from atoll import playbook


def test_playbook_view_decides_held_delta_and_rolls_back(scene):
    page = scene.go("/playbooks?key=playbook/cook")
    expect(page.get_by_role("meter", name="tokens used")).to_be_visible()
    row = page.get_by_role("table", name="Section recipes").get_by_role("row", name="Boil eggs")
    expect(row).to_contain_text("recipes-00001")
    expect(page.get_by_role("table", name="Section tactics")).to_contain_text("<script>window.hacked = 1</script>")
    timeline = page.locator(".timeline")
    expect(timeline.locator(".badge")).to_have_text(["held", "applied", "rejected", "applied", "applied"])
    expect(timeline).to_contain_text("bullet 'x-00001' not found")
    expect(timeline.locator(".hidden-mark").first).to_have_text("RLO")
    (held,) = playbook.PlaybookStore(scene.run_store.versions(), key="playbook/cook").list_held()
    form = f"Decide on {held.id}"
    expect(scene.sign(form, "ann", " ", "Apply")).to_have_text("Enter a reason.")
    scene.sign(form, "ann", "they were rubber", "Apply")
    expect(page.get_by_text("No held deltas.")).to_be_visible()
    expect(page.get_by_role("table", name="Section recipes")).to_contain_text("Never boil eggs for 7 minutes.")
    expect(timeline).to_contain_text("ann: they were rubber")
    page.get_by_label("Search").fill("never")
    expect(page.get_by_role("table", name="Section recipes").locator("tbody tr")).to_have_count(1)
    page.get_by_label("Search").fill("")
    page.get_by_role("button", name="Changes of version 3").click()
    expect(page.get_by_role("heading", name="Changes of version 3")).to_be_visible()
    page.get_by_role("button", name="Show version 1").click()
    expect(page.get_by_role("table", name="Section recipes")).to_contain_text("recipes-00001")
    page.get_by_role("button", name="Newest version").click()
    page.get_by_role("button", name="Roll back to version 1").click()
    scene.sign("Roll back to version 1", "ann", "it got worse", "Roll back")
    expect(timeline).to_contain_text("rollback to 1")
    notes = playbook.PlaybookStore(scene.run_store.versions(), key="playbook/cook")
    assert notes.version == 5
    page.get_by_role("button", name="Edit recipes-00001").click()
    page.get_by_label("Text", exact=True).fill("Boil eggs for 8 minutes.")
    scene.sign("Edit recipes-00001", "ann", "they were too soft", "Save")
    expect(page.get_by_role("table", name="Section recipes")).to_contain_text("Boil eggs for 8 minutes.")
    page.get_by_role("button", name="Roll back to version 5").click()
    scene.sign("Roll back to version 5", "ann", "as before", "Roll back")
    expect(page.get_by_role("table", name="Section recipes")).to_contain_text("Boil eggs for 7 minutes.")
    assert next(item.content for item in notes.current().bullets.values()) == "Boil eggs for 7 minutes."


def test_survival_run_has_playbook(scene):
    page = scene.go(f"/runs/{scene.sample_store.lives}/playbook")
    expect(page.get_by_role("heading", name="Bullets")).to_be_visible()
    expect(page.get_by_role("table", name="Section tactics")).to_contain_text("Avoid")
    page.get_by_text("Deltas of this episode").last.click()
    expect(page.locator(".verdict .badge").first).to_have_text("applied")
    page.set_viewport_size({"width": 360, "height": 740})
    expect(page.get_by_role("table", name="Section tactics")).to_be_visible()
