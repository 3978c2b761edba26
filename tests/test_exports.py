"""The names that others may lean on: one that goes or comes is a decision, not an accident."""

import importlib
import subprocess
import sys

import pytest

import atoll

NAMES = {
    "atoll": """
        __version__ archipelago candidate cluster config control errors evaluation evolve executor function gate
        governed journal llm llmsr mind mutation playbook profiler programs runs sandbox store strategies survival
        system testing versions
    """,
    "atoll.cluster": """
        Cluster ClusterEvent ClusterProfilers DefaultCluster EliteCluster Evolver EvolverConfig FeatureBins Island
        IslandConfig ListableCluster MakePopulation NicheKey NichedPopulation OnFnAdded OnFnSelected RankSelector
        ResetRule RoundRobin Selector SoftmaxSelector TournamentCluster VersionedPopulation WeightSelector by_instance
        by_score by_signature funsearch_population make_generation_schedule reset_worst_half single_niche
    """,
    "atoll.governed": """
        AggregatorReflector AlreadyDecided CachedParameters CascadeEvaluator Change DEFER Decider Evolver Feedback
        FeedbackChannel FileParameters FuncEvaluator Gap LLMGenerator LogEntry LogReplayer LogSource MemoryParameters
        ParameterEvolver ParameterStore Parameters Policy Proposal Proposals QuotaExceeded RuleEvaluator Rules
        RuntimeTool SecretFound SessionQuota ShadowResult ShadowRunner Snapshot StoredParameters ToolBuilder
        ToolDefinition Transaction Value WeightedEvaluator author_context get_current_author
    """,
    "atoll.llm": """
        BudgetExhausted CallTracker ChatPrompt CommandLineLLM EnsembleLLM EnsembleMember FunctionLLM HostedLLM
        InvalidResponse
        JournaledLLM LLM LLMBudget LLMError LocalLLM MailboxLLM MeteredLLM OpenAICompatibleLLM Price PricedLLM
        RecordedLLM RecordingLLM Response RoutedProposer TokenCountingLLM WaitingCall ask_json continue_prompt
        get_messages make_llm use_agent_folder
    """,
    "atoll.llmsr": "EvolverConfig Profiler PyMutationEngine Regressor regress spawn_evolver",
    "atoll.mutation": """
        ChildTuner ChoiceMutator EditMutator EditRequest LLMCallable MODES MixedMutator Mode MutatorBandit MutatorName
        NotApplicable Prompt PromptBuilder ReadProgram ResponseReader RewriteMutator SyntaxMutator TunedMutator Tuner
        UnusableResponse Vocabulary add_mutators apply_blocks build_program_prompt clean_response compile_python
        describe_editable_part extract_text fence
        find_choices find_required_names find_signature hide_markers is_mutable iter_fenced_blocks make_default_mutator
        make_diff_parser mend_python parse_blocks tunable with_text
    """,
    "atoll.playbook": """
        Answer Bullet BulletIndex Comparer Config CurationResult Curator Delta Excerpt Experience Generator Grade
        HeldDelta HeldEntry HistoryEntry KEY LLMAnswerer LLMComparer LLMReflection LLMReflector Meaning OfflineLearner
        OfflineResult OnlineLearner Playbook PlaybookAgent PlaybookChange PlaybookStore Reflector Relation RetiredBullet
        Round Stats Tag TaggingReflector Turn Verdict add embed_with estimate_tokens export_folder format_bullet
        import_folder load_folder make_island make_reflector make_store merge relate_words remove tag update wrap
        wrap_pydantic_ai
    """,
    "atoll.executor": "Executor ExecutorConfig LocalExecutor RayConfig RayStats SlotPool cpu_count",
    "atoll.sandbox": """
        APART_NOTE ApartSandbox CLOSED_MESSAGE CallJob DEFAULT_PERMISSIONS FunctionServerJob IsolatedSandbox Job LEVELS
        Limits MakeJob OutputEvaluator Permissions Probe ProcessPool ProcessSandbox ProgramJob RemoteFunction Sandbox
        SandboxEvaluator SandboxResult ScoreJob compare_scoring describe_missing find_modules get_level
        load_function_server load_score_job make_score_reader open permissions_from_source probe run_job
    """,
    "atoll.store": """
        Blobs Candidates ChangeEntry ChangeLog ChangeRequest FeedItem Gap LeaseInterval LeaseStatus Leases
        LedgerVersions MemoryBlobs MemoryChangeLog MemoryInbox MemoryJournal MemoryVersions Migrant RecordFeed Row Run
        RunLock SQLChangeLog SharedJournal SharedUsage Store StoredInbox StoredJournal StoredVersions VersionLedger
        audit open
    """,
    "atoll.testing": """
        CallPosition CandidateEvaluatorSuite ClusterSuite ExecutorSuite FailingJournal FakeClock Fault
        FeedbackChannelSuite GateSuite InboxSuite JournalSuite LLMSuite ListableClusterSuite LogSourceSuite ModelServer
        ParameterStoreContract PopulationSuite ProposerSuite RandomDelays SandboxSuite ScriptedLLM SelectorSuite
        VersionsSuite WorldSuite get_comparable_records make_evaluated_function make_failed_function
    """,
}


@pytest.mark.parametrize("package", NAMES)
def test_a_package_exports_these_names_and_no_others(package):
    assert sorted(importlib.import_module(package).__all__) == sorted(NAMES[package].split())


@pytest.mark.parametrize("package", NAMES)
def test_every_exported_name_is_there(package):
    module = importlib.import_module(package)
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert not missing


def test_the_package_shows_its_modules_before_they_are_imported():
    program = (
        "import sys, atoll; print(*dir(atoll)); print(atoll.gate.has_score.__name__, 'atoll.cluster' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names, used = result.stdout.splitlines()
    assert names.split() == sorted(NAMES["atoll"].split())
    assert used == "has_score False"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'atoll' has no attribute 'clutser'"):
        _ = atoll.clutser
    with pytest.raises(ImportError, match="clutser"):
        exec("from atoll import clutser")


def test_a_type_checker_knows_what_comes_out_of_a_module(tmp_path):
    script = tmp_path / "script.py"
    asked = ["reveal_type(control.Budget().iterations)", "reveal_type(atoll.evolve('a b', len).score)"]
    script.write_text("\n".join(["import atoll", "from atoll import control", *asked, ""]), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(script)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'Revealed type is "int | None"' in result.stdout, result.stdout + result.stderr
    assert 'Revealed type is "float"' in result.stdout
