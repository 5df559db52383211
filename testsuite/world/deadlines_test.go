package world_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/testsuite/figures"
	"github.com/virtflow/virtflow/workflows/entity"
)

// bound says what ends a wait, or what users see while it lasts.
type bound struct {
	deadline  string // it ends by itself, by this
	condition string // it is visible as this
	settled   bool   // nothing is awaited but the next request: this is what was asked for
}

// waitsOf are the waits of each entity by how their words begin, and what bounds each. A wait that is in the code and
// not here fails the test, and so does one that is here and not in the code.
func waitsOf() map[string]map[string]bound {
	deleting := bound{condition: "deletionTimestamp and finalizers of the object itself"}
	first := bound{deadline: "crdwatch's repair, every five minutes: it tells the object, or that there is none"}
	retry := bound{deadline: "the pause between attempts, two minutes at most",
		condition: "the Failure or Synchronized condition"}
	held := bound{condition: "the condition and the current details that say who holds it, and which control lets it go"}
	transition := bound{deadline: "the transition's own deadline"}
	said := bound{deadline: "it is told again each minute"}
	return map[string]map[string]bound{
		"vm": {
			"the first observation of the VirtualMachine": first,
			"another run strategy: ":                      {condition: "Failure"},
			"the  transition to end":                      transition,
			"the instance to be gone":                     transition,
			"other finalizers of the VirtualMachine":      deleting,
			"the  transition":                             transition,
			"the  transition to compensate":               transition,
			"the back-off after an instance": {deadline: "status.startFailure.retryAfterTimestamp",
				condition: "CrashLoopBackOff"},
			"its disks to be filled: ": {
				condition: "Provisioning, DataVolumeError, or the Failure condition; CDI ends it"},
			"its instance to be gone": {
				condition: "Stopping, and the instance's own conditions"},
			"its instance to run: ": {
				condition: "Starting, and the instance's own conditions"},
			"nothing: this is what the run strategy asks for": {settled: true},
		},
		"vmi": {
			"the first observation of the VirtualMachineInstance": first,
			"the VirtualMachineInstance of pod ":                  {deadline: "the next look for the pod"},
			"an operation on the guest to be answered":            {deadline: "a fifth of a second from when it began"},
			"the guest to shut down and its pod to end": {deadline: "the next look for the pod",
				condition: "Ready is False with reason PodTerminating"},
			"the attempt to start the domain to be cancelled": {deadline: "a cancelled activity is not waited for"},
			"other finalizers of the VirtualMachineInstance":  deleting,
			"word of the launcher pod": {
				deadline: "crdwatch's repair, every five minutes: it tells the pod, or that there is none"},
			"a node for the launcher pod: ": {
				condition: "PodScheduled is False with reason Unschedulable"},
			"the launcher pod's images: ": {
				condition: "Synchronized is False with the reason that the kubelet gives"},
			"the launcher pod to run": {
				condition: "Synchronized is False with reason LauncherPodNotRunning, after two minutes"},
			"the node's worker to start the domain": {
				deadline:  "the activity's own: ten minutes until it begins, and so many attempts",
				condition: "Synchronized is False"},
			"the kubelet to call the pod ready": {
				condition: "Ready is False with the kubelet's reason"},
			"migration  to end": {deadline: "the migration's own: it is aborted, because its instance is to go"},
			"the migration to say where the guest is": {deadline: "five minutes where no migration answers",
				condition: "the migration's own NodeLost condition"},
			"its volumes: ": {condition: "PodScheduled is False with reason Unschedulable and what lacks, or " +
				"DataVolumesReady is not True"},
			"the next observation": {deadline: "crdwatch's repair, every five minutes"},
			"nothing: ":            {settled: true},
		},
		"replicaset": {
			"the first observation of the VirtualMachineInstanceReplicaSet": first,
			"the garbage collector: ":                       deleting,
			"another specification: ":                       {condition: "ReplicaFailure"},
			"spec.paused to be false":                       {condition: "ReplicaPaused"},
			"the cancelled transition to end":               transition,
			"the transition to end":                         transition,
			"the replicate transition":                      transition,
			"nothing: there are as many replicas as wanted": {settled: true},
			"the back-off after %d replicas": {deadline: "the back-off's own time",
				condition: "the current details"},
		},
		"migration": {
			"the first observation of the VirtualMachineInstanceMigration": first,
			"the VirtualMachineInstanceMigration of pod ":                  {deadline: "ten seconds, then it is read"},
			"the instance to agree":                                        said,
			"the instance: ":                                               said,
			"the instance to say that it is handed off":                    {deadline: "two minutes"},
			"the instance to say where its guest is":                       said,
			"the cluster's limits": {deadline: "each five minutes it is asked again",
				condition: "the Queued condition; the details have the place"},
			"a resource quota to have room: ":  {condition: "the condition migrationRejectedByResourceQuota"},
			"what is true to be read again":    {deadline: "the next read, a minute at most"},
			"a pod for the target":             {deadline: "fifteen minutes, or what the annotation says"},
			"a node for the target: ":          {deadline: "five minutes, or what the annotation says"},
			"the images of the target's pod: ": {deadline: "fifteen minutes, or what the annotation says"},
			"the target's pod to run":          {deadline: "fifteen minutes, or what the annotation says"},
			"the source's offer":               {deadline: "the activity's own: five minutes"},
			"the target to be prepared":        {deadline: "the activity's own: two minutes"},
			"a person: the migration is ":      held,
			"the guest to be moved from ":      {deadline: "completionTimeoutPerGiB times its size; at the latest a day"},
			"the copy to be aborted: ":         {deadline: "the activities' own"},
			"the guest to go on at ":           {deadline: "the activity's own: five minutes; then both ends are looked at"},
			"what is true at both ends: ":      {deadline: "the next look, a minute at most"},
			"node ":                            {condition: "the NodeLost condition: nothing may be decided before it is back or fenced"},
			"a person: the guest seems to run at both ends, and nothing is touched": {
				condition: "the OutcomeUnknown condition: nobody but a person can tell"},
			"the target's node to withdraw it": {deadline: "the activity's own: a minute"},
			"pod  to end":                      {deadline: "the next look for the pod"},
			"the object to go":                 deleting,
		},
		"admission": {
			"whatever migrations there are": {deadline: "ten seconds, or that all have been heard of"},
			"migrations":                    {settled: true},
			"a migration to be let in: ":    held,
			"a place":                       {deadline: "the migrations that are under way end by their own"},
		},
		"drain": {
			"the control ":                 held,
			"those that leave":             {deadline: "their migrations' own, and the instances' grace periods"},
			"those whose turn comes later": {deadline: "the back-off, or the end of those before them"},
			"somebody to change what blocks those that are left": {condition: "the current details say what blocks whom"},
		},
		"workloadupdate": {
			"a person: the workload update is ":               held,
			"the first word of which image new launchers get": first,
			"the release to be everywhere":                    {deadline: "thirty seconds"},
			"those that leave":                                {deadline: "their migrations' own, and the instances' grace periods"},
			"those whose turn comes later":                    {deadline: "the back-off, the batch, or the end of those before them"},
			"somebody to change what blocks those that are left, or to restart them": {
				condition: "the current details say what blocks whom; status.outdatedVirtualMachineInstanceWorkloads"},
		},
		"node": {
			"the first observation of the Node": first,
			"the drain":                         {deadline: "the drain's own waits"},
			"the node's worker to report its host": {deadline: "the next time that it is asked",
				condition: "kubevirt.io/schedulable is false"},
			"changes of the node or of its host": {settled: true},
		},
		"entity": {
			"another attempt to : ":           retry,
			"a person: the  is ":              held,
			"a person: the %s needs approval": held,
			"the repair to take effect":       {deadline: "the next turn of the loop"},
			"the planner did not settle":      {deadline: "one minute"},
			"the step in hand to end": {
				deadline: "its activities' own: a limit for each attempt, and so many attempts"},
		},
	}
}

// awaits are the places where workflows block, by function, and what ends each.
func awaits() map[string]string {
	return map[string]string{
		"vm.awaitRunning AwaitWithTimeout":   "the transition's deadline",
		"vm.deleteInstance AwaitWithTimeout": "the transition's deadline",
		"vmi.operate Await": "the operations before it: 25 seconds each, and Temporal lets ten " +
			"in at once",
		"replicaset.await AwaitWithTimeout": "the transition's deadline",
		"entity.NewChild Receive":           "a listener of its own; nothing waits for it",
		"entity.Run Await": "handlers of updates: a control takes one turn of the loop, an " +
			"operation on a guest 25 seconds",
		"drain.Workflow Receive":      "a listener of its own; nothing waits for it",
		"entity.sleep Await":          "the waits of the planners",
		"entity.Run AwaitWithTimeout": "a second, for the end of a transition that the server is about to tell",
	}
}

// TestDeadlines lists every wait of the planners and every place where a workflow blocks, and wants each to have a
// deadline or to be visible.
func TestDeadlines(t *testing.T) {
	known, blocking := waitsOf(), awaits()
	seen := map[string]bool{}
	total, unbounded := 0, 0
	t.Cleanup(func() { figures.Print(t, "deadlines: waits %d, unbounded: %d", total, unbounded) })
	for pkg, bounds := range known {
		texts, blocks := waitsIn(t, pkg)
		for _, text := range texts {
			total++
			key := ""
			for k := range bounds {
				if strings.HasPrefix(text, k) && len(k) > len(key) {
					key = k
				}
			}
			b, ok := bounds[key]
			if !ok {
				unbounded++
				t.Errorf("workflows/%s waits for %q: name its deadline, or the condition that shows it", pkg, text)
				continue
			}
			require.True(t, b.settled || b.deadline != "" || b.condition != "",
				"workflows/%s waits for %q without deadline or condition", pkg, text)
			seen[pkg+key] = true
		}
		for k := range bounds {
			require.True(t, seen[pkg+k], "workflows/%s no longer waits for %q: take it off the list", pkg, k)
		}
		for _, b := range blocks {
			total++
			require.Contains(t, blocking, b, "workflows/%s blocks in a place that has no deadline on the list", pkg)
			delete(blocking, b)
		}
	}
	require.Empty(t, blocking, "no longer in the code: take it off the list")
	presets(t)
}

// presets: every activity has the time-outs that end it.
func presets(t *testing.T) {
	t.Helper()
	require.NotZero(t, entity.LocalOptions().StartToCloseTimeout)
	require.EqualValues(t, 1, entity.LocalOptions().RetryPolicy.MaximumAttempts)
	require.GreaterOrEqual(t, entity.LocalOptions().ScheduleToCloseTimeout, time.Hour,
		"the SDK counts the wait for a slot")
	for _, o := range []workflow.ActivityOptions{entity.ClusterOptions(), entity.BatchOptions()} {
		require.NotZero(t, o.StartToCloseTimeout)
		require.Zero(t, o.ScheduleToCloseTimeout, "it would count the wait in the queue")
		require.Zero(t, o.ScheduleToStartTimeout, "it would count the wait in the queue")
		require.NotZero(t, o.RetryPolicy.MaximumAttempts)
	}
	node := entity.NodeOptions("n")
	require.NotZero(t, node.StartToCloseTimeout)
	require.GreaterOrEqual(t, node.ScheduleToStartTimeout, 10*time.Minute,
		"many starts on one node wait for each other")
	require.Zero(t, node.ScheduleToCloseTimeout, "it would count the wait in the queue")
	require.NotZero(t, node.RetryPolicy.MaximumAttempts)
}

// waitsIn reads a package of workflows: the words of its waits, and where it blocks.
func waitsIn(t *testing.T, pkg string) (texts, blocks []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "workflows", pkg, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				texts = append(texts, wordsOf(n, pkg+"."+function.Name.Name)...)
				if b := blockOf(n); b != "" {
					blocks = append(blocks, fmt.Sprintf("%s.%s %s", pkg, function.Name.Name, b))
				}
				return true
			})
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts), blocks
}

// wordsOf are the words of a wait, if a node of the syntax has some: a field or variable Waiting, what Or and still are
// given, or what a function waiting returns.
func wordsOf(n ast.Node, function string) []string {
	var value ast.Expr
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if id, ok := n.Key.(*ast.Ident); ok && id.Name == "Waiting" {
			value = n.Value
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if s, ok := left.(*ast.SelectorExpr); ok && s.Sel.Name == "Waiting" && i < len(n.Rhs) {
				value = n.Rhs[i]
			}
		}
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Or" && len(n.Args) == 1 || s.Sel.Name == "still") {
			value = n.Args[len(n.Args)-1]
		}
	}
	if r, ok := n.(*ast.ReturnStmt); ok && slices.Contains(speakers(), function) {
		value = r.Results[0]
	}
	if value == nil {
		return nil
	}
	text := ""
	ast.Inspect(value, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				text += s
			}
		}
		return true
	})
	if c, ok := value.(*ast.CallExpr); ok && text == "" {
		if s, ok := c.Fun.(*ast.SelectorExpr); ok &&
			!slices.Contains(speakers(), strings.SplitN(function, ".", 2)[0]+"."+s.Sel.Name) {
			return []string{"what " + s.Sel.Name + " says: list it among the speakers"}
		}
	}
	if text == "" {
		return nil // passed on from elsewhere
	}
	return []string{text}
}

// speakers are the functions that return the words of a wait.
func speakers() []string {
	return []string{"vmi.waiting", "vm.rest", "migration.waiting", "migration.waitingForPod", "migration.waitingForEnd",
		"migration.text", "admission.waitingFor", "drain.waiting",
		"workloadupdate.waiting"}
}

// blockOf names what blocks, if a node of the syntax does.
func blockOf(n ast.Node) string {
	c, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Await", "AwaitWithTimeout", "AwaitWithOptions", "Select", "Receive", "Sleep"},
		s.Sel.Name) {
		return ""
	}
	return s.Sel.Name
}
