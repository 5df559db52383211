package parts

import (
	"os"
	"runtime"
	"time"
)

// Missing returns the parts that are not built yet, and about how long that takes on this machine when nothing is
// compiled.
func (b Builder) Missing(all []Part) ([]Part, time.Duration, error) {
	var missing []Part
	var cold time.Duration
	for _, p := range all {
		folder, err := b.Folder(p)
		if err != nil {
			return nil, 0, err
		}
		if _, err := os.Stat(folder); err != nil {
			missing = append(missing, p)
			cold += p.Cold
		}
	}
	return missing, Scale(cold, runtime.NumCPU()), nil
}

// Scale returns how long a build takes on a machine with so many processors that takes d on two. What cannot be done
// side by side (downloads, linking) is a quarter.
func Scale(d time.Duration, processors int) time.Duration {
	return (d/4 + d*3/4*2/time.Duration(processors)).Round(time.Minute)
}
