package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/admission"
	"github.com/virtflow/virtflow/testsuite/kube"
)

const (
	perSecond, measuredFor = 100, 20 * time.Second // requests a second
	vmisKnown              = 5000
	// usersAtOnce is the number of concurrent users while every VMI gets a request.
	usersAtOnce = 8
)

func record(b *testing.B, id string) *admission.Record {
	b.Helper()
	all, err := admission.Cases()
	require.NoError(b, err)
	i := slices.IndexFunc(all, func(r *admission.Record) bool { return r.ID == id })
	require.GreaterOrEqual(b, i, 0, id)
	return all[i]
}

// BenchmarkProcess measures the api-server's real program. Its memory is the kernel's figure.
func BenchmarkProcess(b *testing.B) {
	p := startProcess(b)
	b.Run("admission at 100 a second", p.atARate)
	b.Run("5000 VMIs", p.manyKnown)
}

// atARate posts at fixed times, whether or not the earlier answer has come: the time that a request waits for others
// counts.
func (p *process) atARate(b *testing.B) {
	var reviews []*admission.Record
	for _, id := range []string{"mutated vm plain", "mutated vmi plain", "vmi plain", "vm disk of no volume"} {
		reviews = append(reviews, record(b, id))
	}
	var mu sync.Mutex
	var took []time.Duration
	before := p.cpu(b)
	for b.Loop() {
		var all sync.WaitGroup
		tick := time.NewTicker(time.Second / perSecond)
		for i := range perSecond * int(measuredFor/time.Second) {
			<-tick.C
			begun, r := time.Now(), reviews[i%len(reviews)]
			all.Go(func() {
				if err := p.post(r.Path, r.Request); err != nil {
					b.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(begun))
			})
		}
		tick.Stop()
		all.Wait()
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(took[len(took)/2]), "median-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
	b.ReportMetric(ms(p.cpu(b)-before)/float64(len(took)), "cpu-ms/request")
	resident, _ := p.memory(b)
	b.ReportMetric(resident, "rss-MB")
	b.ReportMetric(0, "ns/op")
}

// manyKnown lets each of many VMIs be defaulted, validated, and requested by a user.
func (p *process) manyKnown(b *testing.B) {
	mutate, validate := record(b, "mutated vmi plain"), record(b, "vmi plain")
	var review struct {
		Request struct {
			Object kubevirtv1.VirtualMachineInstance `json:"object"`
		} `json:"request"`
	}
	require.NoError(b, json.Unmarshal(validate.Request, &review))
	for i := range vmisKnown {
		vmi := review.Request.Object.DeepCopy()
		vmi.Namespace, vmi.Name, vmi.UID, vmi.ResourceVersion = "default", fmt.Sprintf("vmi-%d", i), "", ""
		vmi.Status = kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running, NodeName: "node1"}
		_, err := kube.Put(p.kube, vmi)
		require.NoError(b, err)
	}
	var users sync.WaitGroup
	for b.Loop() {
		next := make(chan int)
		for range usersAtOnce {
			users.Go(func() {
				for i := range next {
					if err := p.post(mutate.Path, mutate.Request); err != nil {
						b.Error(err)
					}
					if err := p.post(validate.Path, validate.Request); err != nil {
						b.Error(err)
					}
					path := fmt.Sprintf("/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/vmi-%d/guestosinfo", i)
					switch code, err := p.ask(path); {
					case err != nil:
						b.Error(err)
					case code == http.StatusNotFound || code == http.StatusUnauthorized || code == http.StatusForbidden:
						b.Errorf("%s: %d", path, code)
					}
				}
			})
		}
		for i := range vmisKnown {
			next <- i
		}
		close(next)
		users.Wait()
	}
	now, most := p.memory(b)
	b.ReportMetric(now, "rss-MB")
	b.ReportMetric(most, "most-MB")
	b.ReportMetric(0, "ns/op")
}
