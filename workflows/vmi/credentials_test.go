package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
)

// TestAccessCredentialsCondition: the condition is KubeVirt's, and each change is an event. A launcher that reports
// nothing changes nothing.
func TestAccessCredentialsCondition(t *testing.T) {
	s := State{
		Phase: PhaseRunning, VMIObject: VMIObject{VMI: &contract.VMIObservation{UID: "u"}},
		Launchers: Launchers{Launcher: Launcher{
			Pod:    &contract.PodObservation{UID: "p"},
			Domain: &contract.DomainObservation{PodUID: "p", State: contract.DomainRunning},
		}},
	}
	s.Announced.Note(s.newEvents())
	const success, failed = "Access credentials sync successful.", "Access credentials sync failed: "
	for i, c := range []struct {
		reported        *contract.AccessCredentials
		status, message string
		event           string
	}{
		{nil, "", "", ""},
		{&contract.AccessCredentials{Message: "Guest agent is offline"}, "False", "Guest agent is offline",
			failed + "Guest agent is offline"},
		{&contract.AccessCredentials{Message: "Guest agent is offline"}, "False", "Guest agent is offline", ""},
		{&contract.AccessCredentials{Message: "no such user"}, "False", "no such user", failed + "no such user"},
		{&contract.AccessCredentials{Done: true}, "True", "", success},
		{nil, "True", "", ""},
		{&contract.AccessCredentials{Message: "no such user"}, "False", "no such user", failed + "no such user"},
		{&contract.AccessCredentials{Done: true}, "True", "", success},
	} {
		s.Domain.AccessCredentials = c.reported
		s.refresh(time.Unix(int64(i+1), 0))
		shown, _ := conditions.Get(s.Conditions, "AccessCredentialsSynchronized")
		require.Equal(t, c.status, shown.Status, i)
		require.Equal(t, c.message, shown.Message, i)
		messages := ""
		news := s.newEvents()
		for _, e := range news {
			messages += e.Message
		}
		require.Equal(t, c.event, messages, i)
		s.Announced.Note(news)
	}
}
