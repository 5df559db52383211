package control

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
)

func TestListsFieldsWithoutEffect(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before := []kubevirt.KubeVirtCondition{{Type: kubevirt.KubeVirtConditionAvailable, Status: corev1.ConditionTrue}}
	got := withFields(before, fieldsCondition(nil, now))
	require.Len(t, got, 2)
	require.Equal(t, corev1.ConditionFalse, got[1].Status)
	require.Equal(t, ReasonNoFieldsIgnored, got[1].Reason)

	later := now.Add(time.Hour)
	got = withFields(got, fieldsCondition([]string{"spec.infra", "spec.imageTag"}, later))
	require.Len(t, got, 2)
	require.Equal(t, corev1.ConditionTrue, got[1].Status)
	require.Equal(t, metav1.NewTime(later), got[1].LastTransitionTime)
	require.True(t, strings.HasSuffix(got[1].Message, ": spec.infra, spec.imageTag"), got[1].Message)

	got = withFields(got, fieldsCondition([]string{"spec.infra"}, later.Add(time.Hour)))
	require.True(t, strings.HasSuffix(got[1].Message, ": spec.infra"), got[1].Message)
	require.Equal(t, metav1.NewTime(later), got[1].LastTransitionTime, "its status has not changed")
	require.Equal(t, got, withFields(got, fieldsCondition([]string{"spec.infra"}, later.Add(2*time.Hour))))

	var many []string
	for i := range mostFieldsListed + 7 {
		many = append(many, fmt.Sprintf("spec.field%d", i))
	}
	c := fieldsCondition(many, now)
	require.True(t, strings.HasSuffix(c.Message, "spec.field49 and 7 more"), c.Message)
	for i := range many {
		many[i] += strings.Repeat("x", 1000)
	}
	message := fieldsCondition(many, now).Message
	require.Less(t, len(message), 4096)
	require.True(t, strings.HasSuffix(message, "x and 54 more"), message[len(message)-40:])
	require.True(t, strings.HasSuffix(fieldsCondition([]string{strings.Repeat("x", 5000)}, now).Message,
		": 1 with long paths"))
}

// TestReportsFieldsOnce: workers of two releases disagree about a generation. Each reports it once, and the other's
// condition stands for a while.
func TestReportsFieldsOnce(t *testing.T) {
	kv := &kubevirt.KubeVirt{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 1}}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	worker := func(fields ...string) *availability {
		return &availability{now: func() time.Time { return now },
			withoutEffect: func(*kubevirt.KubeVirt) ([]string, error) { return fields, nil }}
	}
	report := func(a *availability) string {
		kv.Status.Conditions = a.reportFields(kv, kv.Status.Conditions)
		a.reported = reportedFor{kv.UID, kv.Generation}
		if i := indexOf(kv.Status.Conditions, ConditionFieldsWithoutEffect); i >= 0 {
			return string(kv.Status.Conditions[i].Status)
		}
		return ""
	}
	older, newer := worker("spec.infra"), worker()
	require.Equal(t, "True", report(older))
	require.Equal(t, "False", report(newer))
	require.Equal(t, "False", report(older), "it has reported this generation")
	kv.Generation = 2
	require.Equal(t, "False", report(newer))
	require.Equal(t, "True", report(older), "the last worker of the older release")
	now = now.Add(reportedTime - time.Second)
	require.Equal(t, "True", report(newer))
	now = now.Add(time.Second)
	require.Equal(t, "False", report(newer), "the other's condition does not stand for ever")
	before := kv.Status.DeepCopy()
	now = now.Add(time.Hour)
	require.Equal(t, "False", report(newer))
	require.Equal(t, before.Conditions, kv.Status.Conditions, "its own is not written again")
	kv.Status.Conditions = nil
	require.Equal(t, "False", report(newer), "it was removed meanwhile")
	before = kv.Status.DeepCopy()
	kv.Generation = 3
	failing := worker()
	failing.withoutEffect = func(*kubevirt.KubeVirt) ([]string, error) { return nil, errors.New("no JSON") }
	report(failing)
	require.Equal(t, before.Conditions, kv.Status.Conditions, "it does not know them")
	kv.Status.Conditions = nil
	require.Empty(t, report(&availability{now: time.Now}), "this worker does not know the fields")
}
