package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// A task token of Temporal's is opaque to the gateway. A node gets it sealed: a version, the time, and a MAC over both,
// the node's name and the token, then the token itself. No table has to be kept, and a restarted gateway, or another
// replica, opens what this one has sealed.
const (
	sealVersion = 1
	sealHead    = 1 + 8
	sealSize    = sealHead + sha256.Size
	// sealLife is how long a task may be answered: longer than any activity of a node takes.
	sealLife = 24 * time.Hour
	// maxTaskToken bounds Temporal's own tokens, which have some 200 bytes.
	maxTaskToken = 16 << 10
	// minSealKey is the shortest key that seals.
	minSealKey = 32
)

func mac(key []byte, head []byte, node string, token []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("virtflow task token\x00"))
	h.Write(head)
	// The length keeps one node's name from running into the token.
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(node))))
	h.Write([]byte(node))
	h.Write(token)
	return h.Sum(nil)
}

// seal makes of a task token one that only that node can use.
func seal(key []byte, node string, token []byte, now time.Time) []byte {
	head := binary.BigEndian.AppendUint64([]byte{sealVersion}, uint64(now.Unix()))
	return slices.Concat(head, mac(key, head, node, token), token)
}

// open is the token inside a sealed one, if that node was given it.
func open(key []byte, node string, sealed []byte, now time.Time) ([]byte, *Refusal) {
	if len(sealed) <= sealSize || len(sealed) > sealSize+maxTaskToken || sealed[0] != sealVersion ||
		len(key) < minSealKey {
		return nil, refuse(ReasonTaskToken, "that is not a task token that this gateway gave out")
	}
	head, sum, token := sealed[:sealHead], sealed[sealHead:sealSize], sealed[sealSize:]
	if !hmac.Equal(sum, mac(key, head, node, token)) {
		return nil, refuse(ReasonTaskToken, "that task was not given to node %s", node)
	}
	given := time.Unix(int64(binary.BigEndian.Uint64(head[1:])), 0)
	if now.Sub(given) > sealLife {
		return nil, refuse(ReasonTaskToken, "that task was given out more than %s ago", sealLife)
	}
	return token, nil
}
