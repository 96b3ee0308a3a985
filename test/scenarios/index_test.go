package scenarios

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// index maps each scenario to what proves it: "stories" are the scripts in
// testdata that begin with its id or name it in their first comment; anything else
// is a test with the file it is in, seen from the root of the project.
var index = map[string][]string{
	"RM-01": {"stories"},
	"RM-02": {"stories", "hooks/rollout/plan_test.go TestPlanSizes"},
	"RM-04": {"stories"},
	"RM-05": {"test/scenarios/bytes_test.go TestRM05StepsLargerThanTheReplicas"},
	"RM-06": {"stories"},
	"RM-08": {"stories"},
	"RM-09": {"stories"},
	"RM-10": {"hooks/rollout/plan_test.go TestPlanSizes", "hooks/greyrelease/validation_test.go TestIV07_Quantities"},
	"RM-12": {"hooks/rollout/plan_test.go TestPlanSizes"},
	"RM-13": {"test/scenarios/requests_test.go TestRM13MissingReplicasKeepWhatIsObserved"},

	"HE-01": {"stories"},
	"HE-03": {"stories"},
	"HE-06": {"test/scenarios/requests_test.go TestHE06ConditionsAreNoHealth"},
	"HE-07": {"stories"},
	"HE-08": {"stories"},
	"HE-10": {"stories"},
	"HE-11": {"test/scenarios/requests_test.go TestHE11ChildrenWithoutStatusOrReplicas"},

	"RB-01": {"stories", "test/scenarios/bytes_test.go TestRB01SameAnswerAfterARollback"},
	"RB-02": {"stories"},
	"RB-03": {"stories"},
	"RB-04": {"stories"},
	"RB-06": {"stories"},
	"RB-07": {"stories"},
	"RB-08": {"stories"},
	"RB-09": {"stories"},
	"RB-14": {"stories"},
	"RB-15": {"stories"},

	"SN-01": {"test/scenarios/sizes_test.go TestSN01LargeTemplates"},
	"SN-03": {"test/scenarios/sizes_test.go TestSN03HistoryStaysFinite"},
	"SN-05": {"hooks/history/revisions_test.go"},
	"SN-06": {"hooks/history/content_test.go TestGoldenHashes"},
	"SN-08": {"stories", "hooks/history/snapshot_test.go"},
	"SN-09": {"hooks/history/snapshot_test.go"},
	"SN-10": {"stories"},
	"SN-12": {"stories"},

	"TR-03": {"stories"},
	"TR-06": {"stories"},
	"TR-07": {"stories"},
	"TR-08": {"stories"},
	"TR-09": {"test/scenarios/requests_test.go TestTR09SelectorsAreDisjoint"},

	"ST-01": {"stories"},
	"ST-04": {"stories"},
	"ST-05": {"stories"},
	"ST-06": {"stories"},
	"ST-08": {"test/scenarios/requests_test.go TestST08CountsAreObserved"},
	"ST-09": {"test/scenarios/requests_test.go TestST09FirstAnswerAfterAnEdit"},

	"NM-01": {"test/scenarios/names_test.go TestNM01NamesOfChildren", "test/tools/crd/admission_test.go"},
	"NM-02": {"hooks/greyrelease/validation_test.go"},
	"NM-04": {"test/tools/crd/admission_test.go"},
	"NM-06": {"hooks/greyrelease/template_test.go"},
	"NM-07": {"hooks/greyrelease/template_test.go"},

	"AM-01": {"test/scenarios/requests_test.go TestAM01ForeignObjectsAreKept", "test/manifests/manifests_test.go TestAM01_AM10_Registration"},
	"AM-03": {"hooks/greyrelease/template_corpus_test.go"},
	"AM-06": {"hooks/greyrelease/template_corpus_test.go"},
	"AM-09": {"stories", "test/scenarios/bytes_test.go TestAM09WaitsAreAnnounced"},
	"AM-10": {"test/manifests/manifests_test.go TestAM01_AM10_Registration"},
	"AM-11": {"hooks/greyrelease/template_corpus_test.go"},
	"AM-12": {"stories"},
	"AM-13": {"stories"},
	"AM-14": {"test/scenarios/bytes_test.go TestAM14NoEmptyObjects", "hooks/greyrelease/template_test.go"},
	"AM-15": {"test/scenarios/bytes_test.go TestAM15AnswersHaveOneOrder"},

	"IV-01": {"hooks/greyrelease/image_test.go"},
	"IV-02": {"hooks/greyrelease/validation_test.go", "test/tools/crd/admission_test.go"},
	"IV-04": {"stories", "test/scenarios/bytes_test.go TestIV04SameAnswerToAnInvalidSpec"},
	"IV-05": {"hooks/greyrelease/spec_test.go", "hooks/greyrelease/validation_template_test.go"},
	"IV-07": {"hooks/greyrelease/validation_test.go", "test/tools/crd/admission_test.go"},
	"IV-10": {"hooks/greyrelease/spec_test.go", "test/tools/crd/admission_test.go"},
	"IV-11": {"test/tools/crd/admission_test.go"},
	"IV-12": {"hooks/greyrelease/spec_test.go", "test/tools/crd/admission_test.go"},

	"SP-01": {"test/scenarios/sizes_test.go TestSP01ManySnapshots", "server/limits_test.go TestTwentyLargeRequestsAtOnce"},
	"SP-02": {"test/scenarios/sizes_test.go TestSP02BurstOfReleases", "server/limits_test.go TestTooManyAtATimeAreSentAway"},
	"SP-05": {"hooks/greyrelease/template_test.go"},

	"SE-03": {"test/manifests/manifests_test.go TestSE03_NetworkPolicy"},
	"SE-04": {"server/limits_test.go TestMemoryIsBoundedUnderAttack", "server/limits_test.go TestAGzipBombIsRefused"},
	"SE-05": {"test/manifests/manifests_test.go TestSE05_Roles", "test/manifests/manifests_test.go TestSE05_PodIsConfined"},
	"SE-06": {"hooks/greyrelease/template_test.go", "hooks/greyrelease/validation_template_test.go"},

	"CS-01": {"stories"},
	"CS-03": {"stories"},
	"CS-04": {"stories"},
	"CS-05": {"test/scenarios/requests_test.go TestCS05SameAnswersWhileACacheLags"},
	"CS-07": {"stories"},
	"CS-09": {"stories"},

	"TI-01": {"stories"},
	"TI-05": {"stories"},
	"TI-06": {"test/scenarios/bytes_test.go TestTI06NothingChangesWithTime"},
	"TI-08": {"stories"},

	"LC-01": {"stories"},
	"LC-02": {"stories", "test/scenarios/requests_test.go TestLC02FinalizingAsksForNothing"},
	"LC-04": {"test/scenarios/requests_test.go TestLC04FinalizingWithoutChildren"},
	"LC-06": {"stories"},
	"LC-07": {"stories"},
	"LC-09": {"test/scenarios/bytes_test.go TestLC09ToolsLabelsStayOnTheRelease", "hooks/history/snapshot_test.go"},
	"LC-11": {"stories"},
	"LC-13": {"stories"},
	"LC-14": {"test/scenarios/interrupted_test.go TestLC14InterruptedAfterEachWrite"},

	"UX-01": {"stories"},
	"UX-03": {"stories"},
	"UX-05": {"stories"},
	"UX-06": {"test/scenarios/names_test.go TestUX06ColumnsAreNeverEmpty"},
}

// leftOut are the scenarios that do not apply, and why.
var leftOut = map[string]string{
	"RB-17": "StatefulSets are no children of a release",
	"TI-03": "there are no release windows",
	"TR-04": "Services are made from spec.traffic.ports alone, none is copied",
	"TR-05": "Services are made from spec.traffic.ports alone, none is copied",
}

// groups are the numbers of the scenarios in each group.
var groups = map[string]string{
	"RM": "01 02 04 05 06 08 09 10 12 13",
	"HE": "01 03 06 07 08 10 11",
	"RB": "01 02 03 04 06 07 08 09 14 15 17",
	"SN": "01 03 05 06 08 09 10 12",
	"TR": "03 04 05 06 07 08 09",
	"ST": "01 04 05 06 08 09",
	"NM": "01 02 04 06 07",
	"AM": "01 03 06 09 10 11 12 13 14 15",
	"IV": "01 02 04 05 07 10 11 12",
	"SP": "01 02 05",
	"SE": "03 04 05 06",
	"CS": "01 03 04 05 07 09",
	"TI": "01 03 05 06 08",
	"LC": "01 02 04 06 07 09 11 13 14",
	"UX": "01 03 05 06",
}

func TestEveryScenarioIsProved(t *testing.T) {
	total := 0
	for group, numbers := range groups {
		for _, number := range strings.Fields(numbers) {
			id := group + "-" + number
			total++
			proofs, known := index[id]
			if why := leftOut[id]; (why != "") == known || known && len(proofs) == 0 {
				t.Errorf("%s: want either a proof or a reason to leave it out, got %q and %q", id, proofs, why)
			}
			for _, proof := range proofs {
				if err := checkProof(id, proof); err != "" {
					t.Errorf("%s: %s: %s", id, proof, err)
				}
			}
		}
	}
	if got := len(index) + len(leftOut); got != total {
		t.Errorf("want %d scenarios, the index has %d", total, got)
	}
}

// checkProof says what is wrong with a proof, or "".
func checkProof(id, proof string) string {
	if proof == "stories" {
		if len(storiesOf(id)) == 0 {
			return "there is no such story"
		}
		return ""
	}
	file, name, _ := strings.Cut(proof, " ")
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err != nil {
		return err.Error()
	}
	if name != "" && !strings.Contains(string(text), "func "+name+"(t *testing.T)") {
		return "there is no such test"
	}
	if name == "" && !strings.Contains(string(text), id) {
		return "the file does not name it"
	}
	return ""
}

// storiesOf lists the stories that tell of a scenario.
func storiesOf(id string) []string {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		return nil
	}
	named := regexp.MustCompile(`^# [A-Z0-9, -]*` + regexp.QuoteMeta(id) + `[,:]`)
	return slices.DeleteFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err != nil || !named.Match(text)
	})
}

// TestStoriesAreNamed: a story whose file name begins with an id says so in its
// first line too, so that the index finds it.
func TestStoriesAreNamed(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories found: %v", err)
	}
	id := regexp.MustCompile(`^[A-Z]{2}-[0-9]{2}`)
	for _, file := range files {
		if name := id.FindString(filepath.Base(file)); name != "" && !slices.Contains(storiesOf(name), file) {
			t.Errorf("%s does not begin with %q", file, "# "+name+":")
		}
	}
}
