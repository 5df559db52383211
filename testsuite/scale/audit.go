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
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// calls are the requests of the control plane under load about objects of a namespace, without watches and lists.
// Recorded events are counted separately.
type calls struct {
	Total  int            `json:"total"`
	Events int            `json:"events"`
	By     map[string]int `json:"by"`
	Failed map[string]int `json:"failed"` // by status
}

// auditLine is a request in the API server's audit log.
type auditLine struct {
	Verb, UserAgent, Stage string
	Received               time.Time                                               `json:"requestReceivedTimestamp"`
	Completed              time.Time                                               `json:"stageTimestamp"`
	Object                 struct{ Resource, Subresource, Namespace, Name string } `json:"objectRef"`
	Answer                 struct{ Code int }                                      `json:"responseStatus"`
}

// what returns the verb and the resource.
func (l auditLine) what() string {
	return strings.TrimSuffix(fmt.Sprintf("%s %s/%s", l.Verb, l.Object.Resource, l.Object.Subresource), "/")
}

// readAudit calls do with each request of an audit log that was received since then and answered, about a namespace,
// without watches. It returns when the first request of the log was answered.
func readAudit(log io.Reader, namespace string, since time.Time, do func(auditLine)) (first time.Time, err error) {
	lines := bufio.NewScanner(log)
	lines.Buffer(make([]byte, 1<<20), 8<<20)
	for lines.Scan() {
		if first.IsZero() {
			var l auditLine
			if json.Unmarshal(lines.Bytes(), &l) == nil {
				first = l.Completed
			}
		}
		if !bytes.Contains(lines.Bytes(), []byte(namespace)) {
			continue
		}
		var l auditLine
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Stage == "ResponseComplete" &&
			l.Object.Namespace == namespace && l.Verb != "watch" && !l.Received.Before(since) {
			do(l)
		}
	}
	return first, lines.Err()
}

// add counts a request.
func (c *calls) add(l auditLine) {
	if l.Answer.Code >= 400 {
		c.Failed[fmt.Sprintf("%s: %d", l.what(), l.Answer.Code)]++
	}
	if l.Object.Resource == "events" {
		c.Events++
		return
	}
	c.Total++
	c.By[l.what()]++
}

// audited reads the audit log and its older files: the API server rotates the log, and deletes the oldest files.
func (s *stage) audited(since time.Time, do func(auditLine)) error {
	files, err := openAudit(s.Audit)
	oldest := time.Now()
	for _, f := range files {
		if err == nil {
			var first time.Time
			first, err = auditedIn(f, s.namespace, since, do)
			if !first.IsZero() && first.Before(oldest) {
				oldest = first
			}
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	if oldest.After(since) {
		return fmt.Errorf("the audit log does not reach back to %s, but to %s only: let kube-apiserver keep more of it",
			since.Format(time.TimeOnly), oldest.Format(time.TimeOnly))
	}
	return nil
}

// openAudit opens all files of the audit log, again if one has been renamed meanwhile.
func openAudit(log string) (files []*os.File, err error) {
	list := func() ([]string, error) { return filepath.Glob(strings.TrimSuffix(log, ".log") + "*.log") }
	before, err := list()
	for err == nil {
		for _, name := range before {
			f, err := os.Open(name)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return files, err
			}
			files = append(files, f)
		}
		var after []string
		if after, err = list(); err != nil || slices.Equal(before, after) {
			break
		}
		for _, f := range files {
			_ = f.Close()
		}
		before, files = after, nil
	}
	return files, err
}

// auditedIn reads one file, unless all of it is older, and returns when its first request was answered, at the latest.
func auditedIn(f *os.File, namespace string, since time.Time, do func(auditLine)) (first time.Time, err error) {
	info, err := f.Stat()
	if err != nil {
		return first, err
	}
	if info.ModTime().Before(since) {
		return info.ModTime(), nil
	}
	return readAudit(f, namespace, since, do)
}

// counted returns the control plane's requests.
func (s *stage) counted(since time.Time) (calls, error) {
	c := calls{By: map[string]int{}, Failed: map[string]int{}}
	err := s.audited(since, func(l auditLine) {
		if s.loaded.isOwn(l.UserAgent) {
			c.add(l)
		}
	})
	return c, err
}

// legs returns when requests about the stage's machines were answered since then.
func (s *stage) legs(since time.Time) ([]leg, error) {
	t := trail{}
	err := s.audited(since, t.add)
	return t.legs(), err
}

// settledFor is how long there must be no further request before a step's requests are counted.
const settledFor = 6 * time.Second

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
		return time.Since(changed) >= settledFor, nil
	})
	if err != nil {
		return last, fmt.Errorf("requests about %s do not end: %w", s.namespace, err)
	}
	return last, nil
}
