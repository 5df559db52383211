package roles

import (
	"crypto/x509/pkix"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/authorization"
)

// TestRolesAreDocumented: administrators write their own authorizers by the table.
func TestRolesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/install.md")
	require.NoError(t, err)
	for role, names := range methods() {
		want := []string{strings.TrimPrefix(role, prefix)}
		want = append(want, names...)
		row := regexp.MustCompile("(?m)^[|] `" + want[0] + "` [|] `GetSystemInfo`.*$").FindString(string(page))
		var have []string
		for _, word := range regexp.MustCompile("`([A-Za-z-]+)`").FindAllStringSubmatch(row, -1) {
			have = append(have, word[1])
		}
		require.Equal(t, want, have)
	}
}

func TestRoles(t *testing.T) {
	poll := func(queue string) any {
		return &workflowservice.PollActivityTaskQueueRequest{TaskQueue: &taskqueue.TaskQueue{Name: queue}}
	}
	for _, c := range []struct {
		organization, method string
		request              any
		allowed              bool
	}{
		{"", "TerminateWorkflowExecution", nil, true},
		{"Example Ltd", "TerminateWorkflowExecution", nil, true},
		{"virtflow:control-worker", "PollWorkflowTaskQueue", nil, true},
		{"virtflow:control-worker", "RegisterNamespace", nil, true},
		{"virtflow:crdwatch", "SignalWithStartWorkflowExecution", nil, true},
		{"virtflow:crdwatch", "TerminateWorkflowExecution", nil, true},
		{"virtflow:crdwatch", "PollWorkflowTaskQueue", nil, false},
		{"virtflow:crdwatch", "PollActivityTaskQueue", poll("virtflow-control"), false},
		{"virtflow:api-server", "UpdateWorkflowExecution", nil, true},
		{"virtflow:api-server", "QueryWorkflow", nil, true},
		{"virtflow:api-server", "TerminateWorkflowExecution", nil, false},
		{"virtflow:api-server", "StartWorkflowExecution", nil, false},
		{"virtflow:api-server", "RespondWorkflowTaskCompleted", nil, false},
		{"virtflow:node-gateway", "PollActivityTaskQueue", poll("virtflow-node-a"), true},
		{"virtflow:node-gateway", "PollActivityTaskQueue", poll("virtflow-control"), false},
		{"virtflow:node-gateway", "SignalWorkflowExecution", nil, true},
		{"virtflow:node-gateway", "GetWorkflowExecutionHistory", nil, false},
		{"virtflow:node-gateway", "RespondActivityTaskCompletedById", nil, false},
		{"virtflow:of-a-later-release", "GetSystemInfo", nil, false},
		{"virtflow:", "TerminateWorkflowExecution", nil, false},
	} {
		info := &authorization.AuthInfo{TLSSubject: &pkix.Name{}}
		if c.organization != "" {
			info.TLSSubject.Organization = []string{c.organization}
		}
		claims, err := Mapper{}.GetClaims(info)
		require.NoError(t, err)
		result, err := NewAuthorizer().Authorize(t.Context(), claims,
			&authorization.CallTarget{APIName: service + c.method, Request: c.request})
		require.NoError(t, err)
		require.Equal(t, c.allowed, result.Decision == authorization.DecisionAllow, "%s: %s", c.organization, c.method)
	}
	for role := range methods() {
		result, err := NewAuthorizer().Authorize(t.Context(), &authorization.Claims{Subject: role},
			&authorization.CallTarget{APIName: "/temporal.api.operatorservice.v1.OperatorService/DeleteNamespace"})
		require.NoError(t, err)
		require.NotEqual(t, authorization.DecisionAllow, result.Decision, role)
	}
}
