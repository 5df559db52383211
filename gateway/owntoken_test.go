package gateway

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestEndsWhenItsTokenIsRejected: the gateway ends when its own token is rejected, unless the rejection is transient.
func TestEndsWhenItsTokenIsRejected(t *testing.T) {
	refused, away := apierrors.NewUnauthorized("Unauthorized"), errors.New("connection refused")
	type answer struct {
		at  time.Duration
		err error
	}
	for name, c := range map[string]struct {
		answers []answer
		ends    bool
	}{
		"once":                    {[]answer{{0, refused}}, false},
		"for a moment":            {[]answer{{0, refused}, {ownTokenTimeout - 1, refused}}, false},
		"for good":                {[]answer{{0, refused}, {time.Second, refused}, {ownTokenTimeout, refused}}, true},
		"with no request between": {[]answer{{0, refused}, {5 * time.Second, away}, {ownTokenTimeout, refused}}, true},
		"until it passed":         {[]answer{{0, refused}, {time.Second, nil}, {ownTokenTimeout, refused}}, false},
		"it is away":              {[]answer{{0, away}, {ownTokenTimeout, away}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, began := ownToken{refused: make(chan error, 1)}, time.Unix(0, 0)
			for _, a := range c.answers {
				o.observe(a.err, began.Add(a.at))
			}
			require.Equal(t, c.ends, len(o.refused) == 1)
			o.observe(refused, began.Add(time.Hour)) // without a receiver it does not block
			o.observe(refused, began.Add(2*time.Hour))
		})
	}
}
