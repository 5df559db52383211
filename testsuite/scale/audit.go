package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// calls are the own requests of what is loaded about objects of a namespace: watches and lists apart, recorded events
// counted for themselves.
type calls struct {
	Total  int            `json:"total"`
	Events int            `json:"events"`
	By     map[string]int `json:"by"`
	Failed map[string]int `json:"failed"` // by what was answered
}

// count adds the requests in an audit log that were received since then, of the user agents that are asked for.
func (c *calls) count(log io.Reader, asked func(string) bool, namespace string, since time.Time) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(make([]byte, 1<<20), 8<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(namespace)) {
			continue
		}
		var l struct {
			Verb, UserAgent, Stage string
			Received               time.Time                                         `json:"requestReceivedTimestamp"`
			Object                 struct{ Resource, Subresource, Namespace string } `json:"objectRef"`
			Answer                 struct{ Code int }                                `json:"responseStatus"`
		}
		if json.Unmarshal(lines.Bytes(), &l) != nil || l.Stage != "ResponseComplete" ||
			l.Object.Namespace != namespace ||
			!asked(l.UserAgent) || l.Verb == "watch" || l.Verb == "list" ||
			l.Received.Before(since) {
			continue
		}
		what := strings.TrimSuffix(fmt.Sprintf("%s %s/%s", l.Verb, l.Object.Resource, l.Object.Subresource), "/")
		if l.Answer.Code >= 400 {
			c.Failed[fmt.Sprintf("%s: %d", what, l.Answer.Code)]++
		}
		if l.Object.Resource == "events" {
			c.Events++
			continue
		}
		c.Total++
		c.By[what]++
	}
	return lines.Err()
}

// counted reads the audit log and the older files beside it: the API server begins a new one when one is full.
func (s *stage) counted(since time.Time) (calls, error) {
	c := calls{By: map[string]int{}, Failed: map[string]int{}}
	files, err := filepath.Glob(strings.TrimSuffix(s.Audit, ".log") + "*.log")
	if err != nil {
		return c, err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just been renamed
		}
		if err == nil {
			err = c.count(f, s.loaded.asked, s.namespace, since)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return c, fmt.Errorf("reading the audit log: %w", err)
		}
	}
	return c, nil
}

// idle is how long nothing more may be asked of the API server until a step's requests are counted.
const idle = 6 * time.Second

// settled counts a step's requests once there are no more.
func (s *stage) settled(ctx context.Context, since time.Time) (calls, error) {
	var last calls
	var changed time.Time
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		now, err := s.counted(since)
		if err != nil {
			return false, err
		}
		if now.Total != last.Total || now.Events != last.Events || changed.IsZero() {
			last, changed = now, time.Now()
		}
		return time.Since(changed) >= idle, nil
	})
	if err != nil {
		return last, fmt.Errorf("requests about %s do not end: %w", s.namespace, err)
	}
	return last, nil
}
