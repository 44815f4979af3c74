-- Evicts the holder that has the given token, tells it, and wakes whoever waits.
-- KEYS  lock, index
-- ARGV  token, code of the name, PUBLISH or SPUBLISH, wake-up channel, eviction channel
-- Returns 1: evicted | 0: no such lock | -1: another token | -2: foreign key
local held = redis.call('GET', KEYS[1])
if not held then
  return 0
end
local size = string.match(held, '^lease (%d+) ')
if not size then
  return -2
end
local from = #'lease ' + #size + 2
local owner = string.sub(held, from, from + size - 1)
if string.match(held, '^%d+', from + size + 1) ~= ARGV[1] then
  return -1
end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call(ARGV[3], ARGV[5], owner)
redis.call(ARGV[3], ARGV[4], 'evicted')
return 1
