package cluster

import (
	"fmt"
	"os"

	"github.com/virtflow/virtflow/deploy/dev/controlplane"
)

// keptDatabase is where the state folder has Temporal's histories; "" when it has none.
func (c Cluster) keptDatabase() string {
	if controlplane.PostgresOf(c.Layout).Exists() {
		return controlplane.Postgres
	}
	if _, err := os.Stat(c.Layout.Path("temporal", "temporal.db")); err == nil {
		return controlplane.SQLite
	}
	return ""
}

// chooseDatabase decides where Temporal keeps its histories: where they are, and
// else where it was asked for. Histories do not move from one to the other.
func chooseDatabase(wanted, kept string) (string, error) {
	switch wanted {
	case "", controlplane.SQLite, controlplane.Postgres:
	default:
		return "", fmt.Errorf("TEMPORAL_DB is %q: give %s or %s", wanted, controlplane.SQLite, controlplane.Postgres)
	}
	switch {
	case kept == "" && wanted == "":
		return controlplane.SQLite, nil
	case kept == "":
		return wanted, nil
	case wanted == "" || wanted == kept:
		return kept, nil
	}
	return "", fmt.Errorf("this cluster has Temporal's histories in %s, and they cannot be moved to %s. Leave "+
		"TEMPORAL_DB out to go on with them, "+
		"or delete the cluster's state with make down PURGE=1 and begin anew", kept, wanted)
}
