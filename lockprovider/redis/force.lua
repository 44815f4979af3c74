-- Evicts the holder that has the given token, tells it, and wakes whoever waits.
-- KEYS  lock, index
-- ARGV  token, code of the name, PUBLISH or SPUBLISH, wake-up channel, eviction channel
-- Returns 1: evicted | 0: no such lock | -1: another token
local h = redis.call('HMGET', KEYS[1], 't', 'o')
if not h[1] then
  return 0
end
if h[1] ~= ARGV[1] then
  return -1
end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call(ARGV[3], ARGV[5], h[2])
redis.call(ARGV[3], ARGV[4], 'evicted')
return 1
