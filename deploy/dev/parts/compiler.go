package parts

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// minCompilerMemory is the least memory, in bytes, with which a compiler runs without collecting garbage. The largest
// packages of Kubernetes and Temporal take less than that.
const minCompilerMemory = 2 << 30

// CompilerEnvironment returns what to add to the environment of the go command, so that compilers and linkers collect
// garbage only when they near their part of the machine's memory. A third of their processor time is the collection of
// garbage otherwise. It returns nothing where the machine has too little memory, or where the caller's environment
// sets GOGC or GOMEMLIMIT.
func CompilerEnvironment() []string {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	meminfo, err := os.Open("/proc/meminfo")
	if err != nil {
		return nil
	}
	defer meminfo.Close()
	return compilerEnvironment(availableMemory(bufio.NewScanner(meminfo)), runtime.NumCPU())
}

// compilerEnvironment divides the memory among the go command and the compilers, of which it starts one per processor.
func compilerEnvironment(available uint64, processors int) []string {
	limit := available / uint64(processors+1)
	if limit < minCompilerMemory {
		return nil
	}
	return []string{"GOGC=off", fmt.Sprintf("GOMEMLIMIT=%dMiB", limit>>20)}
}

// availableMemory returns MemAvailable of /proc/meminfo in bytes, and 0 when there is no such line.
func availableMemory(meminfo *bufio.Scanner) uint64 {
	for meminfo.Scan() {
		fields := strings.Fields(meminfo.Text())
		if len(fields) == 3 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(fields[1], 10, 54)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
