-- Gives a lock back if it is still this owner's, and wakes whoever waits for it.
-- KEYS  lock, index, and if a request of the owner may still be under way his abort marker
-- ARGV  mark of the owner, code of the name, PUBLISH or SPUBLISH, channel, '1': whoever owns
--       it, life of the marker in ms
-- Returns 1: given back | 0: was not this owner's
local call = redis.call
if KEYS[3] then
  call('SET', KEYS[3], '', 'PX', ARGV[6])
end
local held = call('GET', KEYS[1])
if held and (string.sub(held, 1, #ARGV[1]) == ARGV[1] or ARGV[5] == '1') then
  call('DEL', KEYS[1])
  call('ZREM', KEYS[2], ARGV[2])
  call(ARGV[3], ARGV[4], 'released')
  return 1
end
return 0
