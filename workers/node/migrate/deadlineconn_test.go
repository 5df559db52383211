package migrate

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/streams/migration"
)

// connected are the two ends of a TLS connection.
func connected(t *testing.T) (here, there *tls.Conn) {
	t.Helper()
	uid := uuid.NewString()
	source, err := migration.NewIdentity(uid, time.Now().Add(time.Hour))
	require.NoError(t, err)
	target, err := migration.NewIdentity(uid, time.Now().Add(time.Hour))
	require.NoError(t, err)
	client := source.Server(target.Fingerprint())
	client.ServerName, client.InsecureSkipVerify = "target", true // the configuration checks the key
	a, b := net.Pipe()
	return tls.Client(a, client), tls.Server(b, target.Server(source.Fingerprint()))
}

// TestDeadlineConn: a target that takes a disk's stream and says nothing is left soon; one that has said something may
// then be silent for as long as it likes.
func TestDeadlineConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := connected(t)
		go func() { _ = there.Handshake() }()
		require.NoError(t, here.Handshake())
		begun := time.Now()
		_, err := (&deadlineConn{Conn: here, limit: answerLimit}).Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, answerLimit, time.Since(begun))
		cutBoth(here, there)

		here, there = connected(t)
		p := &deadlineConn{Conn: here, limit: answerLimit}
		go func() {
			_, _ = io.WriteString(there, "a")
			time.Sleep(time.Hour)
			_, _ = io.WriteString(there, "b")
		}()
		one := make([]byte, 1)
		_, err = io.ReadFull(p, one)
		require.NoError(t, err)
		_, err = io.ReadFull(p, one)
		require.NoError(t, err)
		require.Equal(t, "b", string(one))
		cutBoth(here, there)
	})
}

// cutBoth ends them.
func cutBoth(conns ...*tls.Conn) {
	for _, c := range conns {
		migration.Cut(c)
	}
}
