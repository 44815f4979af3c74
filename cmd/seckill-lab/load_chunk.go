package main

import "bytes"

// maxChunkLine bounds a chunk's size line with its extensions, and a trailer line.
const maxChunkLine = 4 << 10

// parseChunks reads a chunked body and puts it together at the start of buf. It takes 0 bytes if the last chunk
// is not there yet; until then nothing is moved, so that it can be called again with more.
func parseChunks(buf []byte) (body []byte, taken int, err error) {
	if _, taken, err = walkChunks(buf, false); taken == 0 || err != nil {
		return nil, 0, err
	}
	return walkChunks(buf, true)
}

func walkChunks(buf []byte, move bool) (body []byte, taken int, err error) {
	length := 0
	for {
		line, ok, err := chunkLine(buf[taken:])
		if !ok {
			return nil, 0, err
		}
		size, err := parseChunkSize(line)
		if err != nil {
			return nil, 0, err
		}
		taken += len(line) + 2
		if size == 0 {
			break
		}
		if length+size > maxBodyBytes {
			return nil, 0, errBodyLimit
		}
		if len(buf)-taken < size+2 {
			return nil, 0, nil
		}
		if buf[taken+size] != '\r' || buf[taken+size+1] != '\n' {
			return nil, 0, errChunk
		}
		if move { // to the left: a size line stood in between
			copy(buf[length:], buf[taken:taken+size])
		}
		length += size
		taken += size + 2
	}
	for { // trailer, up to the empty line
		line, ok, err := chunkLine(buf[taken:])
		if !ok {
			return nil, 0, err
		}
		taken += len(line) + 2
		if len(line) == 0 {
			return buf[:length], taken, nil
		}
	}
}

// chunkLine returns the line at the start of buf without its CR LF; ok is false, without an error, if it is not
// complete yet.
func chunkLine(buf []byte) (line []byte, ok bool, err error) {
	end := bytes.IndexByte(buf[:min(len(buf), maxChunkLine)], '\n')
	if end < 0 {
		if len(buf) >= maxChunkLine {
			return nil, false, errChunk
		}
		return nil, false, nil
	}
	if end == 0 || buf[end-1] != '\r' {
		return nil, false, errChunk
	}
	return buf[:end-1], true, nil
}

// parseChunkSize reads "1a" or "1a;extension".
func parseChunkSize(line []byte) (int, error) {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	digits = bytes.TrimRight(digits, " \t")
	if len(digits) == 0 || len(digits) > 8 {
		return 0, errChunk
	}
	size := 0
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			size = size<<4 | int(c-'0')
		case c >= 'a' && c <= 'f':
			size = size<<4 | int(c-'a'+10)
		case c >= 'A' && c <= 'F':
			size = size<<4 | int(c-'A'+10)
		default:
			return 0, errChunk
		}
	}
	return size, nil
}
