//go:build unix && !linux && !darwin

package proc

import "errors"

func processes() ([]entry, error) { return nil, errors.ErrUnsupported }

func startOf(int) uint64 { return 0 }

func commandLine(int) string { return "" }

func sessionOf(int) int { return 0 }
