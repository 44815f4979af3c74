-- Takes a free lock, or confirms one that this attempt already took (a resent
-- script must not fail, nor count twice).
-- KEYS  lock, fence, index
-- ARGV  mark of the owner, TTL in ms, note, code of the name, life of the fence in ms, '1': plain counter
-- Returns {1, value} | {0, value, ms left}: another's | {-1}: foreign key
-- A value is the owner's mark, token, since in ms and note (redis_value.go).
local call = redis.call
local held = call('GET', KEYS[1])
if held and string.sub(held, 1, 6) ~= 'lease ' then
  return {-1}
end
local mine = held and string.sub(held, 1, #ARGV[1]) == ARGV[1]
if held and not mine then
  return {0, held, call('PTTL', KEYS[1])}
end
local now = call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local ends = ms + ARGV[2]
if mine then
  call('PEXPIRE', KEYS[1], ARGV[2])
  call('ZADD', KEYS[3], ends, ARGV[4])
  return {1, held}
end

-- The token rises also when the counter was lost: then it starts again at the
-- server's time in microseconds, above every number given before. Below 2^53 until
-- the year 2255, so doubles are exact. SET tells the last one, which is seldom ahead.
local token = now[1] * 1000000 + now[2]
if ARGV[6] == '1' then token = 1 end -- a plain counter, for the tests of this safeguard
local t = string.format('%.0f', token)
local last = tonumber(call('SET', KEYS[2], t, 'PX', ARGV[5], 'GET') or '0')
if token <= last then
  t = string.format('%.0f', last + 1)
  call('SET', KEYS[2], t, 'PX', ARGV[5])
end
local value = ARGV[1] .. t .. ' ' .. ms .. ' ' .. ARGV[3]
call('SET', KEYS[1], value, 'PX', ARGV[2])
call('ZADD', KEYS[3], ends, ARGV[4])
if now[2] % 64 == 0 then -- now and then: what vanished holders left in the index
  call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ms - 60000)
end
return {1, value}
