package main

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recorded counts each event (kind and reason), by VM and its VMI.
type recorded map[string]map[string]int

// eventsOf counts virtflow's events in a list.
func eventsOf(list []corev1.Event) recorded {
	r := recorded{}
	for _, e := range list {
		if !strings.HasPrefix(e.ReportingController, "virtualmachine") && e.ReportingController != "virt-handler" {
			continue
		}
		name := e.InvolvedObject.Name
		if r[name] == nil {
			r[name] = map[string]int{}
		}
		r[name][e.InvolvedObject.Kind+" "+e.Reason] += int(e.Count)
	}
	return r
}

// least returns the smallest count of each event over the VMs.
func (r recorded) least() map[string]int {
	var out map[string]int
	for _, events := range r {
		if out == nil {
			out = map[string]int{}
			for what, n := range events {
				out[what] = n
			}
		}
		for what := range out {
			out[what] = min(out[what], events[what])
		}
	}
	return out
}

// lost returns how many events of these VMs are missing, compared with a VM at rest.
func lost(atRest map[string]int, r recorded, names []string) map[string]int {
	out := map[string]int{}
	for _, name := range names {
		for what, n := range atRest {
			if missing := n - r[name][what]; missing > 0 {
				out[what] += missing
			}
		}
	}
	return out
}

// events lists the events of the namespace.
func (s *stage) events(ctx context.Context) (recorded, error) {
	var all []corev1.Event
	o := metav1.ListOptions{Limit: 500}
	for {
		list, err := s.kubernetes.CoreV1().Events(s.namespace).List(ctx, o)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		if o.Continue = list.Continue; o.Continue == "" {
			return eventsOf(all), nil
		}
	}
}
