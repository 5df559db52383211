package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// A task token of Temporal's is opaque to the gateway. A node gets it sealed: a version, the time, and a MAC over both,
// the node's name and what follows: the name of the task's activity and the token itself. No table has to be kept, and
// a restarted gateway, or another replica, opens what this one has sealed.
const (
	sealVersion = 2
	// sealNameless is the version before, without the activity's name.
	sealNameless = 1
	sealHead     = 1 + 8
	sealSize     = sealHead + sha256.Size
	// sealLife is how long a task may be answered: longer than any activity of a node takes.
	sealLife = 24 * time.Hour
	// maxTaskToken bounds Temporal's own tokens, which have some 200 bytes.
	maxTaskToken = 16 << 10
	// minSealKey is the shortest key that seals.
	minSealKey = 32
)

// tokenMAC returns the message authentication code of a task token for a node.
func tokenMAC(key []byte, head []byte, node string, token []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("virtflow task token\x00"))
	h.Write(head)
	// The length keeps one node's name from running into the token.
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(node))))
	h.Write([]byte(node))
	h.Write(token)
	return h.Sum(nil)
}

// task is an activity task that a node was given.
type task struct {
	activity string // "": a gateway of an earlier release has sealed it
	token    []byte
}

// seal returns a task token that only that node can use.
func seal(key []byte, node string, t task, now time.Time) []byte {
	head := binary.BigEndian.AppendUint64([]byte{sealVersion}, uint64(now.Unix()))
	inside := slices.Concat([]byte{byte(len(t.activity))}, []byte(t.activity), t.token)
	return slices.Concat(head, tokenMAC(key, head, node, inside), inside)
}

// open returns the task of a sealed token, if that node was given it.
func open(key []byte, node string, sealed []byte, now time.Time) (task, *Refusal) {
	if len(sealed) <= sealSize || len(sealed) > sealSize+maxTaskToken || len(key) < minSealKey ||
		sealed[0] != sealVersion && sealed[0] != sealNameless {
		return task{}, refuse(ReasonTaskToken, "the task token is not one of this gateway")
	}
	head, sum, inside := sealed[:sealHead], sealed[sealHead:sealSize], sealed[sealSize:]
	if !hmac.Equal(sum, tokenMAC(key, head, node, inside)) {
		return task{}, refuse(ReasonTaskToken, "the task was not given to node %s", node)
	}
	given := time.Unix(int64(binary.BigEndian.Uint64(head[1:])), 0)
	if now.Sub(given) > sealLife {
		return task{}, refuse(ReasonTaskToken, "the task was given out more than %s ago", sealLife)
	}
	if sealed[0] == sealNameless {
		return task{token: inside}, nil
	}
	name := int(inside[0])
	if len(inside) <= 1+name {
		return task{}, refuse(ReasonTaskToken, "the task token is not one of this gateway")
	}
	return task{string(inside[1 : 1+name]), inside[1+name:]}, nil
}
