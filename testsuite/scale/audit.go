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

// auditLine is a request in the API server's audit log.
type auditLine struct {
	Verb, UserAgent, Stage string
	Received               time.Time                                               `json:"requestReceivedTimestamp"`
	Completed              time.Time                                               `json:"stageTimestamp"`
	Object                 struct{ Resource, Subresource, Namespace, Name string } `json:"objectRef"`
	Answer                 struct{ Code int }                                      `json:"responseStatus"`
}

// what was asked for.
func (l auditLine) what() string {
	return strings.TrimSuffix(fmt.Sprintf("%s %s/%s", l.Verb, l.Object.Resource, l.Object.Subresource), "/")
}

// readAudit calls do with each request in an audit log that was received since then and answered: those about a
// namespace, without watches and lists.
func readAudit(log io.Reader, namespace string, since time.Time, do func(auditLine)) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(make([]byte, 1<<20), 8<<20)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(namespace)) {
			continue
		}
		var l auditLine
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Stage == "ResponseComplete" &&
			l.Object.Namespace == namespace && l.Verb != "watch" && l.Verb != "list" && !l.Received.Before(since) {
			do(l)
		}
	}
	return lines.Err()
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

// audited reads the audit log and the older files beside it: the API server begins a new one when one is full.
func (s *stage) audited(since time.Time, do func(auditLine)) error {
	files, err := filepath.Glob(strings.TrimSuffix(s.Audit, ".log") + "*.log")
	if err != nil {
		return err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has just been renamed
		}
		if err == nil {
			err = readAudit(f, s.namespace, since, do)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return fmt.Errorf("reading the audit log: %w", err)
		}
	}
	return nil
}

// counted are the own requests of what is loaded.
func (s *stage) counted(since time.Time) (calls, error) {
	c := calls{By: map[string]int{}, Failed: map[string]int{}}
	err := s.audited(since, func(l auditLine) {
		if s.loaded.asked(l.UserAgent) {
			c.add(l)
		}
	})
	return c, err
}

// legs are when requests about the stage's machines were answered since then.
func (s *stage) legs(since time.Time) ([]leg, error) {
	t := trail{}
	err := s.audited(since, t.add)
	return t.legs(), err
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
