package world_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/testsuite/suite"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

// bound has what ends a wait, or what users see while it lasts.
type bound struct {
	deadline  string // the wait ends by itself, at this time
	condition string // the wait is visible as this
	settled   bool   // nothing is pending: the entity waits for the next request
}

// bounds returns what bounds each kind of wait. The test fails for a kind that is not here.
func bounds() map[waits.Kind]bound {
	deleting := bound{condition: "deletionTimestamp and finalizers of the object itself"}
	retry := bound{deadline: "the back-off, two minutes at most",
		condition: "the Failure or Synchronized condition"}
	held := bound{condition: "the condition and the current details: the holder, and the control that releases it"}
	transition := bound{deadline: "the transition's own deadline"}
	repeated := bound{deadline: "it is sent again every minute"}
	nothing := bound{settled: true}
	targetPod := bound{deadline: "fifteen minutes, or what the annotation says"}
	return map[waits.Kind]bound{
		waits.FirstObservation: {deadline: "crdwatch's resync, every five minutes: it sends the object, or that it is " +
			"absent"},
		waits.OwnerObservation: {deadline: "the next read of the pod, or ten seconds; then it is read"},
		waits.NextAttempt:      retry,
		waits.Release:          held,
		waits.Approval:         held,
		waits.Transition:       transition,
		waits.OtherFinalizers:  deleting,
		waits.StepEnd:          {deadline: "its activities' own: a limit for each attempt, and so many attempts"},
		waits.NextRun:          {deadline: "at once: it continues as new"},
		waits.Repair:           {deadline: "the next turn of the loop"},
		waits.UnsettledPlanner: {deadline: "one minute"},
		waits.Nothing:          nothing,

		waits.RunStrategy:         {condition: "Failure"},
		waits.Compensation:        transition,
		waits.OrphaningTransition: transition,
		waits.StartBackoff: {deadline: "status.startFailure.retryAfterTimestamp",
			condition: "CrashLoopBackOff"},
		waits.DataVolumes:         {condition: "Provisioning, DataVolumeError, or the Failure condition; CDI ends it"},
		waits.InstanceRunning:     {condition: "Starting, and the instance's own conditions"},
		waits.InstanceGone:        {condition: "Stopping, and the instance's own conditions"},
		waits.DeletedInstanceGone: transition,

		waits.OperationAnswer: {deadline: "a fifth of a second from when it began"},
		waits.GuestShutdown: {deadline: "the next read of the pod",
			condition: "Ready is False with reason PodTerminating"},
		waits.StartCancellation: {deadline: "a cancelled activity is not waited for"},
		waits.MigrationEnd:      {deadline: "the migration's own: it is aborted, because its instance is to go"},
		waits.Volumes: {condition: "PodScheduled is False with reason Unschedulable and what is missing, or " +
			"DataVolumesReady is not True"},
		waits.LauncherNode:     {condition: "PodScheduled is False with reason Unschedulable"},
		waits.LauncherImages:   {condition: "Synchronized is False with the reason that the kubelet gives"},
		waits.LauncherRunning:  {condition: "Synchronized is False with LauncherPodNotRunning after two minutes"},
		waits.LauncherObstacle: {condition: "Synchronized is False with the reason of the pod's event, after 15 s"},
		waits.DomainStart: {deadline: "the activity's own: ten minutes until it begins, and so many attempts",
			condition: "Synchronized is False"},
		waits.PodReady: {condition: "Ready is False with the kubelet's reason"},
		waits.DepartedGuest: {deadline: "five minutes where no migration answers",
			condition: "the migration's own NodeLost condition"},
		waits.NextObservation: {deadline: "crdwatch's resync, every five minutes"},

		waits.GarbageCollection:   deleting,
		waits.Specification:       {condition: "ReplicaFailure"},
		waits.Unpause:             {condition: "ReplicaPaused"},
		waits.TransitionEnd:       transition,
		waits.CancelledTransition: transition,
		waits.ReplicaBackoff:      {deadline: "the back-off's own time", condition: "the current details"},

		waits.Reservation:        repeated,
		waits.RefusedReservation: repeated,
		waits.HandOff:            {deadline: "two minutes"},
		waits.ConfirmedResult:    repeated,
		waits.Admission: {deadline: "the request is sent again every five minutes",
			condition: "the Queued condition"},
		waits.AdmissionPosition: {deadline: "the request is sent again every five minutes",
			condition: "the Queued condition; the details have the position"},
		waits.Quota:           {condition: "the condition migrationRejectedByResourceQuota"},
		waits.NextRead:        {deadline: "the next read, a minute at most"},
		waits.TargetPod:       targetPod,
		waits.TargetNode:      {deadline: "five minutes, or what the annotation says"},
		waits.TargetImages:    targetPod,
		waits.TargetRunning:   targetPod,
		waits.Offer:           {deadline: "the activity's own: five minutes"},
		waits.Preparation:     {deadline: "the activity's own: two minutes"},
		waits.Move:            {deadline: "completionTimeoutPerGiB times its size; at the latest a day"},
		waits.Abort:           {deadline: "the activities' own"},
		waits.Resume:          {deadline: "the activity's own: five minutes; then both ends are inspected"},
		waits.Inspection:      {deadline: "the next inspection, a minute at most"},
		waits.SilentNode:      {condition: "NodeLost: no decision before the node is back or fenced"},
		waits.GuestAtBothEnds: {condition: "the OutcomeUnknown condition: only a person can decide"},
		waits.Withdrawal:      {deadline: "the activity's own: a minute"},
		waits.PodEnd:          {deadline: "the next read of the pod"},
		waits.ObjectGone:      deleting,

		waits.MigrationObservations: {deadline: "ten seconds, or that all have been observed"},
		waits.Migrations:            nothing,
		waits.ClosedQueue:           held,
		waits.RunningMigration:      {deadline: "the migrations that are under way end by their own"},

		waits.ResumedDrain:   held,
		waits.SettledRelease: {deadline: "thirty seconds"},
		waits.LeavingGuests:  {deadline: "their migrations' own, and the instances' grace periods"},
		waits.LaterGuests:    {deadline: "the back-off, the batch, or the end of those before them"},
		waits.BlockedGuests:  {condition: "the current details say what blocks whom"},
		waits.BlockedUpdate: {condition: "the current details say what blocks whom; " +
			"status.outdatedVirtualMachineInstanceWorkloads"},

		waits.Drain:      {deadline: "the drain's own waits"},
		waits.HostReport: {deadline: "the next request for a report", condition: "kubevirt.io/schedulable is false"},
		waits.NodeChange: nothing,
	}
}

// awaits returns the places where workflows block, by function, with what ends each wait.
func awaits() map[string]string {
	return map[string]string{
		"vm.awaitRunning AwaitWithTimeout":   "the transition's deadline",
		"vm.deleteInstance AwaitWithTimeout": "the transition's deadline",
		"vmi.operate Await": "the operations before it: 25 seconds each, and Temporal admits ten " +
			"in at once",
		"replicaset.awaitDone AwaitWithTimeout": "the transition's deadline",
		"entity.NewChild Receive":               "a coroutine of its own; nothing waits for it",
		"entity.Run Await": "handlers of updates: a control takes one turn of the loop, an " +
			"operation on a guest 25 seconds",
		"drain.Workflow Receive":      "a coroutine of its own; nothing waits for it",
		"entity.sleep Await":          "the waits of the planners",
		"restoretoken.Workflow Await": "nothing is pending: crdwatch advances the token twice a minute",
		"entity.Run AwaitWithTimeout": "a second, for a close of the transition that the server is about to report",
	}
}

// TestDeadlines lists every wait of the planners and every place where a workflow blocks. Each must have a deadline or
// be visible to users.
func TestDeadlines(t *testing.T) {
	bounds, blocking := bounds(), awaits()
	total, unbounded := 0, 0
	t.Cleanup(func() { suite.PrintFigures(t, "deadlines: waits %d, unbounded: %d", total, unbounded) })
	names, used, blocks := readWorkflows(t)
	for i, kind := range waits.Kinds() {
		total++
		b := bounds[kind]
		require.NotEmpty(t, kind.String(), "%s has no sentence", names[i])
		require.NotEmpty(t, used[names[i]], "no entity waits for %s any longer: remove the kind", names[i])
		for _, facts := range used[names[i]] {
			require.Equal(t, strings.Count(kind.String(), "%"), facts, "the facts of a wait for %s", names[i])
		}
		if !b.settled && b.deadline == "" && b.condition == "" {
			unbounded++
			t.Errorf("an entity waits for %q: name its deadline, or the condition that shows it", kind)
		}
	}
	for _, b := range blocks {
		total++
		require.Contains(t, blocking, b, "it blocks in a place that has no deadline on the list")
		delete(blocking, b)
	}
	require.Empty(t, blocking, "no longer in the code: take it off the list")
	checkPresets(t)
}

// checkPresets checks that every activity has timeouts that end it.
func checkPresets(t *testing.T) {
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

// readWorkflows reads the workflows' code. It returns the names of the kinds of waits in their order, how many facts
// each wait of a kind is given, and the places where it blocks.
func readWorkflows(t *testing.T) (kinds []string, used map[string][]int, blocks []string) {
	t.Helper()
	used = map[string][]int{}
	files, err := filepath.Glob(filepath.Join("..", "..", "workflows", "*", "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		require.NoError(t, err)
		function := ""
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				function = n.Name.Name
			case *ast.ValueSpec:
				if parsed.Name.Name == "waits" && n.Names[0].IsExported() {
					kinds = append(kinds, n.Names[0].Name)
				}
			case *ast.CallExpr:
				s, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					break
				}
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "waits" && s.Sel.Name == "For" {
					kind := n.Args[0].(*ast.SelectorExpr).Sel.Name
					used[kind] = append(used[kind], len(n.Args)-1)
				}
				if slices.Contains([]string{
					"Await", "AwaitWithTimeout", "AwaitWithOptions", "Select", "Receive", "Sleep",
				}, s.Sel.Name) {
					blocks = append(blocks, fmt.Sprintf("%s.%s %s", parsed.Name.Name, function, s.Sel.Name))
				}
			}
			return true
		})
	}
	return kinds, used, blocks
}
